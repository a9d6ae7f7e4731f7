#!/usr/bin/env python3
"""The web page in a headless Chromium: what a reader sees and does, with a keyboard alone, on a phone, in both schemes.

Refusals, lost connections and hostile answers come from a stand-in for the server (page_double.py), everything else from
`evros serve` on the bundled model. Pictures of the page go to build/screenshots, for people to look at.
usage: page_test.py; needs EVROS, EVROS_SOURCE_DIR, and Debian's chromium and chromium-driver.
"""
import json
import os
import re
import time
import unittest
import urllib.request

from selenium.webdriver.common.keys import Keys

import page_double
from page_browser import Browser, wait
from server import Server

SOURCES = os.environ["EVROS_SOURCE_DIR"]
ASSETS = os.path.join(SOURCES, "src", "server", "page")
PICTURES = os.path.join(SOURCES, "build", "screenshots")

page = None


def setUpModule():
    global page
    os.makedirs(PICTURES, exist_ok=True)
    page = Browser()


def tearDownModule():
    page.quit()


class WithDouble(unittest.TestCase):
    """Against scripted answers."""

    @classmethod
    def setUpClass(cls):
        cls.server = page_double.Double(ASSETS)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        self.server.requests.clear()
        self.refusals = False  # the console names every refused request; that is no fault of the page's
        page.open(self.server.url)

    def tearDown(self):
        errors = [e for e in page.errors() if not (self.refusals and "Failed to load resource" in e)]
        self.assertEqual(errors, [])
        self.assertEqual(page.driver.title, "Evros")

    def test_markup_in_an_answer_stays_text_and_markdown_becomes_structure(self):
        page.say("markup")
        # The title would be another, and so would these, had anything been taken for HTML.
        self.assertEqual(len(page.all("#log :is(script, img, b, i, u)")), 0)
        self.assertIn("""<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">""",
                      page.text(".markdown > p"))
        texts = lambda selector: [node.get_property("textContent") for node in page.all(".markdown " + selector)]
        self.assertEqual(texts("> h3"), ["A heading <b>not bold</b>"])
        self.assertEqual(texts("> p strong") + texts("> p em"), ["bold", "italic"])
        self.assertIn("2 * 3 * 4, snake_case_name", texts("> p")[1])
        self.assertEqual([a.get_attribute("href") for a in page.all(".markdown a")], ["https://example.org/a_b"])
        self.assertEqual(texts("> ol > li > p"), ["First, with code:", "Second"])
        self.assertEqual(texts("> ol > li > ul > li"), ["inner one", "inner two"])
        self.assertEqual(texts("pre"), ['print("<script>")  # **not bold**', '<script>document.title = "taken"</script>'])
        self.assertEqual(texts("> blockquote strong"), ["words"])
        self.assertEqual(texts("td"), ["a", "1", "b", "<u>2</u>"])

    def test_an_answer_that_grows_looks_like_one_that_came_whole(self):
        script = """
          const [text, done] = arguments;
          import('/markdown.js').then(({render}) => {
            const grown = document.createElement('div'), wrong = [];
            for (let end = 0; end <= text.length; end++) {
              const whole = document.createElement('div');
              render(grown, text.slice(0, end));
              render(whole, text.slice(0, end));
              if (grown.innerHTML !== whole.innerHTML) wrong.push(text.slice(0, end));
            }
            done(wrong);
          });"""
        hard = "*a **b *c _d `e\n- x\n- y\n\n***both*** **open\n~~~\ncode\n~~~\n| a | b\n|--|--\n| 1 \\| 2 | 3\n> > deep\n1) one\n2) two\n---\nend"
        for text in (page_double.MARKUP, hard):
            self.assertEqual(page.driver.execute_async_script(script, text), [])

    def test_long_hostile_answers_do_not_stall_the_page(self):
        script = """
          const [texts, done] = arguments;
          import('/markdown.js').then(({render}) => done(texts.map((text) => {
            const began = performance.now();
            render(document.createElement('div'), text);
            return performance.now() - began;
          })));"""
        texts = [piece * (60000 // len(piece)) for piece in
                 ("*", "**a ", "*_", "`", "[", "[a](", ">", "- ", "  - a\n", "|", "| -\n", "\\", " ", "#", "_a*b~~", "~~~\n", "1. ", "- - ")]
        for text, took in zip(texts, page.driver.execute_async_script(script, texts)):
            self.assertLess(took, 2000, text[:8])

    def test_refusals_and_losses_are_told_in_plain_words_with_the_servers_sentence(self):
        self.refusals = True
        for script, ours, servers in (
                ("busy", "The server is busy. It asks to try again in 7 seconds.", "64 requests wait already; the limit is 64."),
                ("memory", "There is not enough memory for this conversation.", "This needs 900 pages of 512."),
                ("stopping", "The server takes no requests at the moment.", "The server is shutting down."),
                ("senseless", "The server refused this request.", "top_p is 7; it is between 0 and 1."),
                ("poisoned", "The server ended this answer with an error.", "a value was not finite"),
                ("lost", "The connection was lost in the middle of the answer. What had arrived is kept.", "")):
            with self.subTest(script):
                page.say(script)
                problem = page.text("#log > :last-child .problem")
                self.assertEqual(problem.split("\n"), [line for line in (ours, servers, "Try again") if line])
        # What had arrived is part of the next request, and what brought nothing is not.
        self.assertEqual(page.say("hello"), "An answer in a few words.")
        answers = [m["content"] for m in self.server.requests[-1]["messages"] if m["role"] == "assistant"]
        self.assertEqual(answers, ["It began", "This sentence has no"])

    def test_stopping_before_the_first_token_lets_the_server_go_and_the_next_turn_works(self):
        page.begin("silent")
        wait(lambda: page.text(".waiting") and self.server.requests, "it waits")
        left = self.server.left
        page.click("#stop")
        wait(lambda: self.server.left > left, "the server is told at once", 1)
        self.assertEqual(page.text("#log .stats"), "Stopped")
        self.assertEqual(page.say("hello"), "An answer in a few words.")
        self.assertEqual([m["content"] for m in self.server.requests[-1]["messages"]], ["silent", "hello"])

    def test_try_again_asks_the_same_once_more(self):
        self.refusals = True
        page.say("busy")
        page.click(".problem button")
        wait(lambda: len(self.server.requests) == 2, "the request is sent again")
        page.finish()
        self.assertEqual(*self.server.requests)
        self.assertEqual(len(page.all("#log > li")), 2)

    def test_a_server_that_has_gone_is_said_to_be_gone(self):
        self.refusals = True
        gone = page_double.Double(ASSETS)
        page.open(gone.url)
        gone.close()
        page.say("hello")
        self.assertIn("The server cannot be reached.", page.text(".problem"))

    def test_a_server_that_wants_a_key_gets_it_and_the_disk_does_not(self):
        self.refusals = True
        page.say("key")
        self.assertIn("This server wants a key.", page.text(".problem"))
        self.assertEqual(page.driver.switch_to.active_element.get_attribute("id"), "key")
        page.press(page_double.KEY, Keys.ENTER)
        wait(lambda: page.answer() == "You are in.", "the answer comes")
        self.assertNotIn(page_double.KEY, page.js("return JSON.stringify(localStorage)"))
        page.reload()
        self.assertEqual(page.say("key"), "You are in.")

    def test_thinking_is_folded_and_counted_while_it_comes(self):
        page.begin("think")
        counts = set()
        wait(lambda: counts.add(page.text(".thinking summary")) or len(counts) > 4, "the count grows")
        self.assertTrue(all(re.fullmatch(r"(Thinking · \d+ tokens?)?", each) for each in counts), counts)
        self.assertIsNone(page.one(".thinking").get_attribute("open"))
        self.assertEqual(page.finish(), "The answer is four.")
        self.assertEqual(page.text(".thinking summary"), "Thought · 31 tokens")
        page.one(".thinking summary").send_keys(Keys.ENTER)
        wait(lambda: page.text(".thought").strip() == ("Two and two. " * 10).strip(), "the thoughts unfold")
        page.say("hello")
        self.assertEqual(self.server.requests[-1]["messages"][1],
                         {"role": "assistant", "content": "The answer is **four**.", "reasoning_content": "Two and two. " * 10})

    def test_the_servers_own_numbers_stand_under_the_answer(self):
        page.say("hello")
        self.assertEqual(page.text(".answer .stats"), "96 tokens · 41.3 tokens/s · first after 182 ms · "
                         "prompt 214: 180 reused, 34 new · parts from an earlier one after 187 tokens")

    def test_the_last_message_can_be_edited_and_nothing_else_changes(self):
        page.say("first")
        page.say("second")
        self.assertFalse(page.all(".question")[0].find_elements("css selector", "button")[0].is_displayed())
        page.all(".question")[1].find_elements("css selector", "button")[0].click()
        self.assertEqual(page.one("#prompt").get_property("value"), "second")
        page.press(Keys.ESCAPE)
        self.assertEqual(page.one("#prompt").get_property("value"), "")
        page.all(".question")[1].find_elements("css selector", "button")[0].click()
        page.say(" thoughts")
        self.assertEqual([m["content"] for m in self.server.requests[-1]["messages"]],
                         ["first", "An answer in a few words.", "second thoughts"])
        self.assertEqual(len(page.all("#log > li")), 4)

    def test_only_what_is_set_is_sent_and_it_survives_a_reload(self):
        page.say("hello")
        plain = self.server.requests[-1]
        self.assertEqual(set(plain), {"model", "messages", "stream", "stream_options"})
        page.click("#settings-button")
        wanted = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "seed": 7, "max_tokens": 50, "repetition_penalty": 1.1,
                  "presence_penalty": -0.5, "frequency_penalty": 0.25, "thinking_budget": 64}
        for name, value in wanted.items():
            page.one(f"[name={name}]").send_keys(str(value))
        page.one("[name=enable_thinking]").send_keys("off")
        page.one("[name=stop]").send_keys("END", Keys.ENTER, "a\\nb")
        page.one("[name=system]").send_keys("Be brief.")
        page.reload()
        page.say("again")
        sent = self.server.requests[-1]
        self.assertEqual(sent["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual({**sent, "messages": 0}, {**plain, **wanted, "enable_thinking": False, "stop": ["END", "a\nb"], "messages": 0})
        self.assertEqual(len(sent["messages"]), 4)  # the conversation survived too
        page.click("#settings-button")
        page.one("[name=top_p]").send_keys("9")  # 0.99: fine; 0.999..: fine; then a value without a meaning
        page.one("[name=min_p]").send_keys(Keys.HOME, "7")
        page.say("more")
        self.assertEqual((self.server.requests[-1]["top_p"], "min_p" in self.server.requests[-1]), (0.99, False))
        page.click("#defaults")
        page.reload()
        page.say("last")
        self.assertEqual(set(self.server.requests[-1]), set(plain))

    def test_the_reader_may_scroll_up_while_an_answer_comes(self):
        gap = lambda: page.js("const s = document.getElementById('scroller'); return s.scrollHeight - s.clientHeight - s.scrollTop")
        page.say("long")
        wait(lambda: gap() < 2, "the end is in view")
        page.begin("endless")
        wait(lambda: len(page.answer()) > 500, "the answer comes")
        wait(lambda: gap() < 60, "the view follows")
        page.one("#scroller").send_keys(Keys.PAGE_UP)
        top = lambda: page.js("return document.getElementById('scroller').scrollTop")
        settled = wait(lambda: (before := top()) == (time.sleep(0.15) or top()) and before, "scrolling ends")
        grown = len(page.answer()) + 500
        wait(lambda: len(page.answer()) > grown, "the answer goes on")
        self.assertEqual(top(), settled)
        page.click("#latest")
        wait(lambda: gap() < 2, "the end is in view")
        left = self.server.left
        page.press(Keys.ESCAPE)
        wait(lambda: self.server.left > left, "the connection ends with the answer")
        self.assertFalse(page.shown("#latest"))

    def test_everything_is_reached_with_the_keyboard_and_shows_that_it_is(self):
        page.say("think")
        page.say("markup")
        page.js("document.querySelector('.skip').focus()")
        walk = []
        for _ in range(40):
            name, visible = page.js("""
              const node = document.activeElement;
              if (node === document.body) return ['', true];
              const style = getComputedStyle(node.id === 'prompt' ? node.parentNode : node);
              return [node.id || node.textContent.trim() || node.getAttribute('aria-label') || node.className,
                      style.outlineStyle !== 'none' || style.boxShadow.includes('0px 0px 0px 1px')]""")
            if not name:
                break
            self.assertTrue(visible, f"the focus on {name} does not show")
            walk.append(name)
            page.press(Keys.TAB)
        wanted = ["Skip to the message box", "new-chat", "engine-button", "settings-button", "theme", "scroller", "Thought · 31 tokens",
                  "Edit", "Answer again", "prompt"]
        self.assertEqual([name for name in walk if name in wanted], wanted, walk)
        unnamed = page.js("""return [...document.querySelectorAll('button, input, select, textarea, a')].filter((node) =>
          !(node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length)).map((node) => node.outerHTML)""")
        self.assertEqual(unnamed, [])
        # Into the settings and out, to the engine and out: the focus goes along.
        page.one("#settings-button").send_keys(Keys.ENTER)
        self.assertEqual(page.js("return document.activeElement.closest('aside').id"), "settings")
        page.press(Keys.TAB, "Be kind.")
        self.assertEqual(page.one("[name=system]").get_property("value"), "Be kind.")
        page.press(Keys.ESCAPE)
        self.assertEqual(page.js("return document.activeElement.id"), "settings-button")
        page.one("#prompt").send_keys("one", Keys.SHIFT + Keys.ENTER + Keys.NULL, "two", Keys.ENTER)
        page.finish()
        self.assertEqual(self.server.requests[-1]["messages"][-1]["content"], "one\ntwo")

    def test_status_is_asked_for_only_while_somebody_looks(self):
        polls = self.server.polls
        time.sleep(1.2)
        self.assertEqual(self.server.polls, polls)
        page.click("#engine-button")
        wait(lambda: self.server.polls >= polls + 3, "a poll a second", 4)
        page.press(Keys.ESCAPE)
        polls = self.server.polls
        time.sleep(1.2)
        self.assertEqual(self.server.polls, polls)

    def test_nothing_sticks_out_of_a_phone_and_pictures_show_every_view(self):
        self.refusals = True
        for device, (width, height) in {"phone": (360, 740), "desktop": (1280, 800)}.items():
            page.open(self.server.url, width, height)
            looks = lambda name: self.take_pictures(device, name)
            looks("welcome")
            page.say("think")
            page.say("markup")
            looks("answer")
            page.say("busy")
            looks("refusal")
            page.click("#settings-button")
            looks("settings")
            page.click("#engine-button")
            wait(lambda: page.text("#rate") not in ("", "0"), "two polls")
            self.assertEqual(page.text("#reuse"), "80 %")
            looks("engine")
            page.js("document.getElementById('engine').scrollTop = 1e6")
            looks("engine-end")
            self.assertEqual(page.text("#meter-Pages p"), "Pages\n312 of 2\u202f048, 64 tokens each")
            self.assertEqual([li.text.split("\n") for li in page.all("#sequences li")][::2],
                             [["decode", "request 41", "812 of 2\u202f048"], ["kept", "idle 12 s", "644 tokens"],
                              ["kept", "idle 1 h 6 min", "4\u202f411 tokens"]])

    def take_pictures(self, device, name):
        grounds = set()
        for scheme in ("dark", "light"):
            page.scheme(scheme)
            wait(lambda: page.js("return document.documentElement.dataset.theme") == scheme, "the page takes the scheme")
            self.assertEqual(page.overflow(), "", f"{device} {scheme} {name}")
            self.assertEqual(page.faint(), "", f"{device} {scheme} {name}")
            grounds.add(page.js("return getComputedStyle(document.body).backgroundColor"))
            page.picture(os.path.join(PICTURES, f"{device}-{scheme}-{name}.png"))
        self.assertEqual(len(grounds), 2)

    def test_the_readers_choice_of_colours_wins_and_stays(self):
        ground = lambda: page.js("return getComputedStyle(document.body).backgroundColor")
        light = ground()
        page.click("#theme")
        page.click("#theme")
        self.assertIn("dark", page.one("#theme").get_attribute("aria-label"))
        dark = ground()
        self.assertNotEqual(dark, light)
        page.reload()
        self.assertEqual(ground(), dark)


class WithServer(unittest.TestCase):
    """Against the program and the bundled model."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.url = cls.server.url + "/"

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log

    def setUp(self):
        page.open(self.url)

    def tearDown(self):
        self.assertEqual(page.errors(), [])

    def set(self, **values):
        """Settings as if they had been typed on an earlier visit."""
        page.js("localStorage.setItem('evros.settings', arguments[0])", json.dumps({name: str(v) for name, v in values.items()}))
        page.reload()

    def test_the_files_come_with_the_policy_that_the_page_is_tested_under(self):
        with urllib.request.urlopen(self.url, timeout=10) as response:
            self.assertEqual(response.headers["Content-Security-Policy"], page_double.POLICY)
            with open(os.path.join(ASSETS, "index.html"), "rb") as file:
                self.assertEqual(response.read(), file.read())

    def test_an_answer_comes_token_by_token_and_the_next_turn_reuses_it(self):
        self.set(temperature=0, enable_thinking="off", max_tokens=80)
        first = page.say("Tell me a story about a fox and a lantern.")
        seen = page.js("return seen")
        self.assertGreater(len(seen), 2, "the answer came in too few pieces")  # a busy machine draws few frames
        self.assertEqual([size for _, size in seen], sorted(size for _, size in seen))
        self.assertGreater(len(first), 100)
        page.say("Tell me another one.")
        numbers = re.fullmatch(r"(?:.* · )?(\d+) tokens · [\d.]+ tokens/s · first after .+ · prompt (\d+): (\d+) reused, (\d+) new(?: · .*)?",
                               page.text("#log > :last-child .stats").replace("\u202f", ""))
        self.assertIsNotNone(numbers, page.text("#log > :last-child .stats"))
        _, prompt, reused, new = (int(number) for number in numbers.groups())
        self.assertGreater(reused, 0)
        self.assertEqual(prompt, reused + new)
        posted = page.js("return posted")
        self.assertEqual([m["role"] for m in posted[-1]["messages"]], ["user", "assistant", "user"])

    def test_stop_frees_the_server_within_a_second_and_the_next_turn_is_right(self):
        # At this temperature nearly every token is as likely as the end: the answer goes on until it is stopped.
        self.set(temperature=100, top_k=0, top_p=1, enable_thinking="off", seed=1)
        page.begin("Tell me a story about a fox and a lantern.")
        wait(lambda: len(page.answer()) > 50, "the answer begins")
        self.assertEqual(self.server.status()["queue"]["running"], 1)
        page.press(Keys.ESCAPE)
        stopped = time.monotonic()
        wait(lambda: self.server.status()["queue"]["running"] == 0, "the server has let go", 1)
        self.assertLess(time.monotonic() - stopped, 1)
        self.assertEqual(self.server.status()["totals"]["cancelled"], 1)
        partial = page.answer()
        self.assertIn("Stopped", page.text("#log .stats"))
        page.js("for (const [name, value] of [['temperature', 0], ['max_tokens', 40]]) document.querySelector(`[name=${name}]`).value = value")
        answer = page.say("Tell me a story about a shy dragon.")
        self.assertGreater(len(answer), 40)
        sent = page.js("return posted.at(-1).messages")
        self.assertEqual([m["role"] for m in sent], ["user", "assistant", "user"])
        self.assertEqual(page.all("#log > .answer .markdown")[0].get_property("textContent"), partial)
        # The same conversation, asked for without the page.
        request = urllib.request.Request(self.url + "v1/chat/completions", method="POST", headers={"Content-Type": "application/json"},
            data=json.dumps({**page.js("return posted.at(-1)"), "stream": False, "stream_options": None}).encode())
        with urllib.request.urlopen(request, timeout=60) as response:
            said = json.load(response)["choices"][0]["message"]["content"]
        kept = page.js("dispatchEvent(new Event('pagehide')); return JSON.parse(sessionStorage.getItem('evros.chat'))")
        self.assertEqual(kept[-1]["content"], said)
        self.assertEqual(kept[1]["content"], sent[1]["content"])
        self.assertGreater(len(sent[1]["content"]), 40)

    def test_answering_again_replaces_the_answer(self):
        self.set(temperature=0, enable_thinking="off", max_tokens=24)
        first = page.say("Tell me a story about a fox and a lantern.")
        self.assertIn("Cut off at the token limit · 24 tokens", page.text("#log .stats"))
        page.click("#log > .answer .actions button")
        wait(lambda: len(page.js("return posted")) == 2, "it is asked again")
        self.assertEqual(page.finish(), first)  # temperature 0: the same
        self.assertEqual(page.js("return posted[0]"), page.js("return posted[1]"))
        self.assertEqual(len(page.all("#log > li")), 2)

    def test_thinking_can_be_had_and_had_not(self):
        self.set(temperature=0, thinking_budget=8, max_tokens=24)
        page.say("Tell me a story about a fox and a lantern.")
        self.assertRegex(page.text(".thinking summary"), r"Thought · \d+ tokens?")
        self.set(temperature=0, enable_thinking="off", max_tokens=16)
        page.click("#new-chat")
        page.say("Tell me a story about a fox and a lantern.")
        self.assertFalse(page.shown(".thinking"))

    def test_the_engine_view_shows_what_the_server_says(self):
        self.set(temperature=0, max_tokens=32)
        page.say("Tell me a story about a fox and a lantern.")
        page.click("#engine-button")
        wait(lambda: page.shown("#engine-body") and page.text("#engine-state") == "live", "numbers come")
        status = self.server.status()
        page.picture(os.path.join(PICTURES, "server-desktop-light-engine.png"))
        shown = dict(row.text.split("\n") for row in page.all("#totals div, #about div"))
        self.assertEqual(shown["Model"], status["model"])
        self.assertEqual(shown["Identity"], status["identity"])
        self.assertEqual(shown["Numerics"], status["numerics"])
        plain = {name: value.replace("\u202f", "") for name, value in shown.items()}
        for name, key in {"Requests": "requests", "Done": "done", "Prompt tokens": "prompt_tokens", "Drawn": "drawn_tokens"}.items():
            self.assertEqual(plain[name], str(status["totals"][key]), name)
        self.assertEqual(len(page.all("#sequences li")), len(status["sequences"]))
        pages = status["pages"]
        self.assertIn(f"{pages['used']} of {pages['total']}, {pages['tokens_per_page']}", page.text("#meter-Pages").replace("\u202f", ""))


if __name__ == "__main__":
    unittest.main()
