// How one message looks, and the place it scrolls in. The conversation itself is chat.js's.
import {$, button, copyButton, count, el, plural, seconds, setText} from './dom.js';
import {render} from './markdown.js';

const scroller = $('scroller');
let following = true;  // the reader is at the end and wants to stay there
let lastTop = 0;

scroller.addEventListener('scroll', () => {
  const below = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop;
  if (scroller.scrollTop < lastTop && below > 4) following = false;
  if (below <= 4) following = true;
  lastTop = scroller.scrollTop;
  $('latest').hidden = following || below < 80;
}, {passive: true});
new ResizeObserver(follow).observe(scroller);

/// Scrolls to the end, unless the reader has scrolled up.
export function follow() {
  if (following) scroller.scrollTop = scroller.scrollHeight;
  else $('latest').hidden = false;
}

export function followAgain() {
  following = true;
  $('latest').hidden = true;
  follow();
}

/// {node}: what the reader wrote. `edit` is called by its button.
export function questionView(message, edit) {
  return {node: el('li', {class: 'question'},
    el('article', {'aria-label': 'You'}, el('div', {class: 'text'}, message.content)),
    el('div', {class: 'actions'}, button('Edit', 'edit', edit)))};
}

/// {node, update()}: an answer that may still grow. `again` is called by its buttons.
export function answerView(message, again) {
  const thought = el('div', {class: 'thought', tabindex: '0'});
  const summary = el('summary', {}, el('span', {}), ' · ', el('span', {}));
  const thinking = el('details', {class: 'thinking', hidden: true}, summary, thought);
  const text = el('div', {class: 'markdown'});
  const waiting = el('p', {class: 'waiting', hidden: true}, 'Reading the prompt');
  const stats = el('p', {class: 'stats'});
  const problem = el('div', {class: 'problem', role: 'alert', hidden: true});
  const actions = el('div', {class: 'actions'}, button('Answer again', 'again', again), copyButton(() => message.content));
  const node = el('li', {class: 'answer'},
    el('article', {'aria-label': 'Evros'}, waiting, thinking, text, problem), stats, actions);

  const update = () => {
    const going = message.state === 'going';
    node.toggleAttribute('aria-busy', going);
    waiting.hidden = !going || Boolean(message.content || message.reasoning);
    if (message.reasoning) {
      thinking.hidden = false;
      const over = message.content || !going;
      thinking.classList.toggle('live', !over);
      setText(summary.firstChild, over ? 'Thought' : 'Thinking');
      setText(summary.lastChild, plural(message.thought, 'token'));
      if (thinking.open) append(thought, message.reasoning);
    }
    render(text, message.content);
    setText(stats, figures(message).join(' · '));
    if (message.error && problem.hidden) showProblem(problem, message.error, again);
    actions.hidden = going;
    actions.firstChild.hidden = Boolean(message.error);
    actions.lastChild.hidden = !message.content;
    follow();
  };
  thinking.addEventListener('toggle', update);
  return {node, update};
}

function showProblem(place, error, again) {
  place.append(el('p', {}, error.message));
  if (error.said) place.append(el('p', {class: 'said'}, error.said));
  place.append(button('Try again', 'again', again));
  place.hidden = false;
}

/// Text that only grows: what is there already keeps its selection.
function append(node, text) {
  if (!node.firstChild) node.append('');
  const shown = node.firstChild.data;
  if (text.startsWith(shown)) node.firstChild.appendData(text.slice(shown.length));
  else node.firstChild.data = text;
}

/// The numbers of an answer in words: the server's when they have come, before that our own clock's.
function figures(message) {
  const {usage, clock} = message;
  if (!clock?.first) return message.note ? [message.note] : [];
  const own = usage?.evros ?? {};
  const tokens = usage?.completion_tokens ?? clock.tokens;
  const rate = own.tokens_per_second ?? (clock.tokens > 1 ? (clock.tokens - 1) * 1000 / (clock.last - clock.first) : 0);
  const found = message.note ? [message.note] : [];
  found.push(plural(tokens, 'token'));
  if (rate > 0 && Number.isFinite(rate)) found.push(`${rate < (usage ? 100 : 10) ? rate.toFixed(1) : count(rate)} tokens/s`);
  const wait = own.ttft_ms ?? clock.first - clock.start;
  if (wait >= 0) found.push(`first after ${seconds(wait / 1000)}`);
  if (usage) {
    const reused = own.reused_tokens ?? usage.prompt_tokens_details?.cached_tokens ?? 0;
    const fresh = own.new_tokens ?? usage.prompt_tokens - reused;
    found.push(`prompt ${count(usage.prompt_tokens)}: ${count(reused)} reused, ${count(fresh)} new`);
    if (own.diverged_at >= 0 && own.diverged_at !== null) found.push(`parts from an earlier one after ${plural(own.diverged_at, 'token')}`);
  }
  return found;
}
