// The live view: what GET /status says, once a second while somebody can see it.
import {getJson} from './api.js';
import {$, count, el, plural, seconds, setText} from './dom.js';

const EVERY = 1000, PATIENCE = 5000;  // ms
const MINUTE = 60;                    // points of the curve

let open = false, timer = 0, asked = null;
let last = null;    // {at, drawn} of the poll before
const rates = [];   // tokens a second, newest last

/// Opens or closes the view. Nothing is asked while it is closed or the page is hidden.
export function showEngine(visible) {
  open = visible;
  restart();
}

function restart() {
  clearTimeout(timer);
  asked?.abort();
  asked = null;
  last = null;
  if (open && !document.hidden) poll();
}
document.addEventListener('visibilitychange', restart);

async function poll() {
  const mine = asked = new AbortController();
  const patience = setTimeout(() => mine.abort(), PATIENCE);
  try {
    const status = await getJson('/status', mine.signal);
    if (mine !== asked) return;
    problem('', status.draining ? 'shutting down' : status.healthy ? 'live' : 'not well');
    show(status);
  } catch (error) {
    if (mine !== asked) return;
    problem(mine.signal.aborted ? 'The server does not answer.' : `${error.message} ${error.said ?? ''}`);
  } finally {
    clearTimeout(patience);
  }
  timer = setTimeout(poll, EVERY);
}

function problem(sentence, state = 'no answer') {
  $('engine-error').hidden = !sentence;
  setText($('engine-error'), sentence);
  setText($('engine-state'), state);
  $('engine-state').classList.toggle('good', state === 'live');
}

function show(status) {
  $('engine-body').hidden = false;
  showRate(status.totals.drawn_tokens);
  const {prompt_tokens: prompt, reused_tokens: reused} = status.totals;
  setText($('reuse'), prompt ? `${Math.round(100 * reused / prompt)} %` : '–');
  const {slots, banks, pages, queue} = status;
  meter('Slots', [slots.used - slots.kept, slots.kept], slots.total, `${slots.used} of ${slots.total}, ${slots.kept} kept for reuse`);
  meter('Banks', [banks.used], banks.total, `${count(banks.used)} of ${count(banks.total)}`);
  meter('Pages', [pages.used], pages.total,
        `${count(pages.used)} of ${count(pages.total)}, ${count(pages.tokens_per_page)} tokens each`);
  meter('Queue', [queue.waiting], queue.limit, `${queue.waiting} waiting of ${queue.limit}, ${queue.running} running`);
  showSequences(status.sequences);
  const {totals, http} = status;
  list('totals', {
    'Requests': count(totals.requests), 'Done': count(totals.done), 'Failed': count(totals.failed),
    'Cancelled': count(totals.cancelled), 'Refused': count(totals.refused), 'Prompt tokens': count(prompt),
    'Reused': count(reused), 'Drawn': count(totals.drawn_tokens), 'Chunks': count(totals.chunks),
    'Connections': `${http.connections}, ${http.exchanges} at work`,
  });
  list('about', {
    'Model': status.model, 'Identity': status.identity, 'Numerics': status.numerics, 'Kernels': status.kernels,
    'Device': status.device, 'Threads': status.threads, 'Context': `${count(status.context)} tokens`,
    'Up for': seconds(Math.floor(status.uptime_s)),
  });
}

function showRate(drawn) {
  const now = performance.now();
  if (last) {
    const rate = Math.max(0, drawn - last.drawn) * 1000 / (now - last.at);
    rates.push(rate);
    if (rates.length > MINUTE) rates.shift();
    setText($('rate'), rate < 10 && rate > 0 ? rate.toFixed(1) : count(rate));
    const top = Math.max(1, ...rates);
    const points = rates.map((value, i) => `${MINUTE - rates.length + i},${(19 - 18 * value / top).toFixed(2)}`);
    $('spark').firstElementChild.setAttribute('points', points.join(' '));
  }
  last = {at: now, drawn};
}

/// A bar of parts, each a share of `total`, and the numbers in words.
function meter(name, parts, total, words) {
  const id = 'meter-' + name;
  if (!$(id)) {
    $('meters').append(el('div', {class: 'meter', id},
                          el('p', {}, el('span', {}, name), el('span', {class: 'value'})),
                          el('div', {class: 'bar', role: 'meter', 'aria-label': name, 'aria-valuemin': 0},
                             ...parts.map((_, i) => el('div', {class: 'part' + i})))));
  }
  const [text, bar] = [$(id).querySelector('.value'), $(id).querySelector('.bar')];
  setText(text, words);
  bar.setAttribute('aria-valuenow', parts.reduce((sum, part) => sum + part, 0));
  bar.setAttribute('aria-valuemax', total);
  bar.setAttribute('aria-valuetext', words);
  parts.forEach((part, i) => { bar.children[i].style.width = `${total > 0 ? 100 * part / total : 0}%`; });
}

function showSequences(sequences) {
  $('no-sequences').hidden = sequences.length > 0;
  const place = $('sequences');
  while (place.children.length > sequences.length) place.lastElementChild.remove();
  while (place.children.length < sequences.length) {
    place.append(el('li', {}, el('span', {class: 'pill'}), el('span', {class: 'who'}), el('span', {class: 'value'}),
                    el('div', {class: 'bar', 'aria-hidden': 'true'}, el('div', {class: 'part0'}))));
  }
  sequences.forEach((sequence, i) => {
    const [pill, who, value, bar] = place.children[i].children;
    const kept = sequence.state === 'kept';
    setText(pill, sequence.state);
    pill.className = 'pill ' + sequence.state;
    setText(who, kept ? `idle ${seconds(Math.floor(sequence.idle_s))}` :
                        `request ${sequence.request}` + (sequence.choice ? `, choice ${sequence.choice}` : ''));
    setText(value, kept ? plural(sequence.tokens, 'token') : `${count(sequence.tokens)} of ${count(sequence.target)}`);
    bar.hidden = kept;
    bar.firstChild.style.width = `${sequence.target > 0 ? Math.min(100, 100 * sequence.tokens / sequence.target) : 0}%`;
  });
}

function list(id, rows) {
  const place = $(id);
  if (!place.children.length) {
    for (const name of Object.keys(rows)) place.append(el('div', {}, el('dt', {}, name), el('dd')));
  }
  Object.values(rows).forEach((value, i) => setText(place.children[i].lastChild, String(value)));
}
