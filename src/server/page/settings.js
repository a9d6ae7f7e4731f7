// What the reader has set. Kept in localStorage; an empty field is not sent, so the model's own default holds.
import {key} from './api.js';
import {$, announce} from './dom.js';

const KEPT = 'evros.settings';
const form = $('settings-form');
const fields = () => [...form.elements].filter((field) => field.name);

/// {name: text} of the fields that are not empty.
const values = () => Object.fromEntries(fields().filter((field) => field.value !== '').map((field) => [field.name, field.value]));

function keep() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(values()));
  } catch { /* no storage: they hold until the page is closed */ }
}

function restore() {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem(KEPT) ?? '{}');
  } catch { /* not ours, or no storage */ }
  for (const field of fields()) {
    if (typeof kept[field.name] === 'string') field.value = kept[field.name];
    if (field.type === 'number') field.placeholder ||= 'default';
  }
}

/// "a\nb" as it is typed, with \n, \t and \\ read as in C.
const unescaped = (line) => line.replace(/\\([nt\\])/g, (_, letter) => ({n: '\n', t: '\t', '\\': '\\'})[letter]);

/// What is added to a request. A field that holds no sensible value is left out, as the mark on it says.
export function requestSettings() {
  const sent = {};
  for (const field of fields()) {
    if (field.value === '' || !field.validity.valid || field.name === 'system') continue;
    if (field.name === 'stop') {
      const lines = field.value.split('\n').filter((line) => line !== '').map(unescaped);
      if (lines.length) sent.stop = lines;
    } else {
      sent[field.name] = field.name === 'enable_thinking' ? field.value === 'on' : Number(field.value);
    }
  }
  return sent;
}

/// The system prompt; empty: none.
export const systemPrompt = () => form.elements.system.value.trim();

export function startSettings() {
  restore();
  form.addEventListener('input', keep);
  form.addEventListener('submit', (event) => event.preventDefault());
  $('defaults').addEventListener('click', () => {
    form.reset();
    keep();
    announce('All settings are the model’s defaults.');
  });
  $('key').value = key.get();
  $('key').addEventListener('input', () => key.set($('key').value.trim()));
}
