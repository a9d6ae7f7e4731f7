// The conversation: what was said, the answer that is coming, and what goes to the server.
//
// A turn is one request. Stopping ends it at once, whatever the network still brings: the next one can begin right away, and
// what had arrived stays in the conversation and is part of the next request.
import {Failure, stream} from './api.js';
import {$, announce, plural} from './dom.js';
import {requestSettings, systemPrompt} from './settings.js';
import {answerView, follow, followAgain, questionView} from './view.js';

const KEPT = 'evros.chat';  // for this tab, so that a reload loses nothing
const prompt = $('prompt');

/// {role, content}; answers also {reasoning, thought, state, note, error, usage, clock}.
let messages = [];
const views = new WeakMap();
let turn = null;      // {message, abort} of the answer that is coming
let editing = false;  // what is being written replaces the last question
let model = null;
let keyWanted = () => {};

/// `wanted` is called when a request was refused for want of a key.
export function onKeyWanted(wanted) {
  keyWanted = wanted;
}

/// There is a key now: what was refused for want of one is asked again.
export function keyGiven() {
  if (messages.at(-1)?.error?.status === 401) answerAgain();
}

/// The name that requests carry.
export function setModel(name) {
  model = name;
}

export const answering = () => turn !== null;
export const isEditing = () => editing;

/// The conversation as the server wants it. A thought without an answer counts; an answer without either does not.
function history() {
  const sent = systemPrompt() ? [{role: 'system', content: systemPrompt()}] : [];
  for (const {role, content, reasoning} of messages) {
    if (role === 'user') sent.push({role, content});
    else if (content || reasoning) sent.push({role, content, ...(reasoning ? {reasoning_content: reasoning} : {})});
  }
  return sent;
}

function keep() {
  try {
    const plain = messages.map(({role, content, reasoning, thought, note, usage, clock}) =>
      ({role, content, reasoning, thought, note, usage, clock}));
    sessionStorage.setItem(KEPT, JSON.stringify(plain));
  } catch { /* too large, or no storage: a reload begins anew */ }
}

function show(message) {
  const view = message.role === 'user' ? questionView(message, beginEdit) : answerView(message, answerAgain);
  views.set(message, view);
  $('log').append(view.node);
  view.update?.();
}

function drop(from) {
  for (const message of messages.splice(from)) views.get(message).node.remove();
}

/// What can be done depends on what is last and on whether an answer is coming.
function mark() {
  $('welcome').hidden = messages.length > 0;
  $('send').hidden = turn !== null;
  $('stop').hidden = turn === null;
  $('editing').hidden = !editing;
  document.querySelectorAll('#log .last').forEach((node) => node.classList.remove('last'));
  for (const role of ['user', 'assistant']) {
    const last = views.get(messages.findLast((message) => message.role === role))?.node;
    last?.classList.add('last');
    if (last) last.querySelector('.actions button').disabled = turn !== null;
  }
  follow();
}

/// Sends what is in the box.
export function send() {
  const content = prompt.value.trim();
  if (!content || turn) return;
  if (editing) drop(messages.findLastIndex((message) => message.role === 'user'));
  editing = false;
  prompt.value = '';
  prompt.dispatchEvent(new Event('input'));
  const message = {role: 'user', content};
  messages.push(message);
  show(message);
  answer();
}

/// The last question is asked once more; the answer to it makes way.
function answerAgain() {
  if (turn) return;
  drop(messages.findLastIndex((message) => message.role === 'user') + 1);
  prompt.focus();
  answer();
}

function beginEdit() {
  if (turn) return;
  editing = true;
  prompt.value = messages.findLast((message) => message.role === 'user').content;
  prompt.dispatchEvent(new Event('input'));
  prompt.focus();
  mark();
}

export function cancelEdit() {
  editing = false;
  prompt.value = '';
  prompt.dispatchEvent(new Event('input'));
  prompt.focus();
  mark();
}

/// Ends the answer that is coming; what has arrived stays.
export function stop() {
  if (!turn) return;
  turn.abort.abort();
  turn.message.note = 'Stopped';
  end(turn, 'Stopped');
}

export function newChat() {
  stop();
  drop(0);
  editing = false;
  keep();
  mark();
  prompt.focus();
  announce('New chat');
}

function end(ended, sentence) {
  ended.message.state = 'ended';
  turn = null;
  views.get(ended.message).update();
  keep();
  mark();
  announce(sentence);
}

async function answer() {
  const message = {role: 'assistant', content: '', reasoning: '', thought: 0, state: 'going',
                   clock: {start: performance.now(), first: 0, last: 0, tokens: 0}};
  const mine = turn = {message, abort: new AbortController()};
  const body = {...(model ? {model} : {}), messages: history(), stream: true, stream_options: {include_usage: true}, ...requestSettings()};
  messages.push(message);
  show(message);
  mark();
  followAgain();
  announce('Answering');
  let drawn = false;
  const draw = () => {  // once a frame, however fast tokens come
    if (drawn) return;
    drawn = true;
    requestAnimationFrame(() => {
      drawn = false;
      views.get(message).update();
    });
  };
  try {
    for await (const chunk of stream('/v1/chat/completions', body, mine.abort.signal)) {
      if (turn !== mine) return;
      take(message, chunk);
      draw();
    }
    if (turn === mine) end(mine, `Answer finished, ${plural(message.clock.tokens, 'token')}`);
  } catch (error) {
    if (turn !== mine) return;  // stopped: nobody waits for this any more
    message.error = error instanceof Failure ? error : new Failure('The server sent something that this page does not understand.', String(error));
    end(mine, '');
    if (error.status === 401) keyWanted();
  }
}

/// One chunk of a stream becomes part of the answer.
function take(message, chunk) {
  const choice = chunk.choices?.[0];
  const {content, reasoning_content: reasoning} = choice?.delta ?? {};
  if (reasoning) {
    message.reasoning += reasoning;
    message.thought++;
  }
  if (content) message.content += content;
  if (content || reasoning) {
    const {clock} = message;
    clock.tokens++;
    clock.last = performance.now();
    clock.first ||= clock.last;
  }
  if (choice?.finish_reason === 'length') message.note = 'Cut off at the token limit';
  if (chunk.usage) {
    message.usage = chunk.usage;
    message.thought = chunk.usage.completion_tokens_details?.reasoning_tokens ?? message.thought;
  }
}

/// What this tab said before it was reloaded.
export function restore() {
  try {
    messages = JSON.parse(sessionStorage.getItem(KEPT) ?? '[]');
  } catch { /* not ours, or no storage */ }
  messages.forEach(show);
  mark();
  addEventListener('pagehide', keep);
}
