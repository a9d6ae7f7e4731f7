"""A headless Chromium with the chat page in it, and what a reader does there."""
import os
import shutil
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# In the page: how the text of the last answer grew, as [milliseconds, characters]; and the bodies of what was posted.
WATCH = """
window.seen = []; window.posted = [];
const began = performance.now(), log = document.getElementById('log');
new MutationObserver(() => {
  const text = log.lastElementChild?.querySelector('.markdown')?.textContent ?? '';
  if (text && seen.at(-1)?.[1] !== text.length) seen.push([performance.now() - began, text.length]);
}).observe(log, {subtree: true, childList: true, characterData: true});
const fetched = window.fetch;
window.fetch = (path, options) => {
  if (options?.body) posted.push(JSON.parse(options.body));
  return fetched(path, options);
};
"""


def wait(condition, what, seconds=15):
    """What `condition()` returns once that is something; fails with `what` after `seconds`."""
    until = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(0.02)


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        self.profile = tempfile.mkdtemp(prefix="page_test")
        arguments = ["--headless=new", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                     "--user-data-dir=" + self.profile]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        for argument in arguments:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def quit(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, url, width=1280, height=800, scheme="light"):
        """The page, with nothing kept from before."""
        self.js("addEventListener('pagehide', () => { sessionStorage.clear(); localStorage.clear(); })")
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.scheme(scheme)
        self.driver.get_log("browser")
        self.driver.get(url)
        self.ready()

    def reload(self):
        self.driver.refresh()
        self.ready()

    def ready(self):
        wait(lambda: self.text("#model"), "the page greets")
        self.js(WATCH)

    def scheme(self, scheme):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.one(selector).text

    def shown(self, selector):
        return any(node.is_displayed() for node in self.all(selector))

    def click(self, selector):
        self.one(selector).click()

    def press(self, *keys):
        """On whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def begin(self, words):
        """Sends a message, as by keyboard, and waits until it is on its way."""
        before = self.js("return posted.length")
        self.one("#prompt").send_keys(words, Keys.ENTER)
        wait(lambda: self.js("return posted.length") > before, "an answer begins")

    def say(self, words):
        """Sends a message and waits for the end of its answer, whose text it returns."""
        self.begin(words)
        return self.finish()

    def finish(self):
        wait(lambda: not self.shown("#stop"), "the answer ends", 30)
        return self.answer()

    def answer(self):
        return self.js("return document.querySelector('#log > .answer:last-child .markdown')?.textContent ?? ''")

    def errors(self):
        """What the console complains of."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def overflow(self):
        """Whatever sticks out of the window to the side, in words; what scrolls by itself does not."""
        return self.js("""
          const wide = document.documentElement.clientWidth, found = [];
          if (document.documentElement.scrollWidth !== wide) found.push(`page: ${document.documentElement.scrollWidth}`);
          for (const node of document.querySelectorAll('body *:not(.unseen)')) {
            if (node.closest('pre, .table, .sprite, nav span, .skip')) continue;
            const box = node.getBoundingClientRect();
            if (box.width && (box.right > wide + 0.5 || box.left < -0.5)) found.push(`${node.tagName}.${node.className}: ${box.right}`);
            if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX === 'auto')
              found.push(`${node.id}: scrolls to the side`);
          }
          return found.join(', ');""")

    def faint(self):
        """Text with less contrast to its ground than WCAG 2.1 wants (4.5 : 1, success criterion 1.4.3), in words."""
        return self.js("""
          const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
          const luminance = (colour) => parts(colour).slice(0, 3).map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const ground = (node) => {
            const colour = getComputedStyle(node).backgroundColor;
            return (parts(colour)[3] ?? 1) === 1 || !node.parentElement ? colour : ground(node.parentElement);
          };
          const found = [];
          for (const node of document.querySelectorAll('body *')) {
            const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || node.matches('input, textarea');
            if (!own || !node.checkVisibility() || node.disabled) continue;
            const ink = getComputedStyle(node, node.matches(':placeholder-shown') ? '::placeholder' : null).color;
            const [dark, light] = [luminance(ink), luminance(ground(node))].sort((a, b) => a - b);
            const contrast = (light + 0.05) / (dark + 0.05);
            if (contrast < 4.5) found.push(`${node.tagName}.${node.className} ${node.textContent.slice(0, 20)}: ${contrast.toFixed(2)}`);
          }
          return found.join(', ');""")

    def picture(self, path):
        self.driver.save_screenshot(path)
