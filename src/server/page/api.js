// The requests this page makes, and what went wrong in plain words.

const KEY = 'evros.key';
let known = '';
try {
  known = sessionStorage.getItem(KEY) ?? '';
} catch { /* no storage */ }

/// The API key: for this tab only, never on disk.
export const key = {
  get: () => known,
  set: (value) => {
    known = value;
    try {
      sessionStorage.setItem(KEY, value);
    } catch { /* no storage: known until the page is closed */ }
  },
};

/// What went wrong: `message` in our words, `said` in the server's.
export class Failure extends Error {
  constructor(message, said = '', status = 0) {
    super(message);
    this.said = said;
    this.status = status;
  }
}

const WORDS = {
  401: 'The server asks for an API key.',
  413: 'This conversation is too large for the server.',
  429: 'The server is busy.',
  500: 'The server failed while it worked on this.',
  503: 'The server takes no requests at the moment.',
  507: 'There is not enough memory for this conversation.',
};

/// A refusal's own sentence: {"error": {"message": ...}}, or whatever text came.
async function refusal(response) {
  let said = '';
  try {
    const text = await response.text();
    try {
      const error = JSON.parse(text).error;
      said = typeof error === 'string' ? error : error?.message ?? '';
    } catch {
      said = text.slice(0, 300);
    }
  } catch { /* the body was lost; the status says enough */ }
  let words = WORDS[response.status] ??
      (response.status < 500 ? 'The server refused this request.' : 'The server could not answer.');
  const wait = Number(response.headers.get('Retry-After'));
  if (wait > 0) words += ` It asks to try again in ${wait === 1 ? 'a second' : wait + ' seconds'}.`;
  return new Failure(words, said, response.status);
}

async function request(path, options = {}) {
  const headers = {...options.headers};
  if (key.get()) headers.Authorization = 'Bearer ' + key.get();
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: 'no-store'});
  } catch (error) {
    if (options.signal?.aborted && error.name === 'AbortError') throw error;
    throw new Failure('The server cannot be reached. Is it still running?');
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function getJson(path, signal) {
  const response = await request(path, {signal});
  return response.json();
}

/// The data of server-sent events, one string each.
async function* events(body) {
  const reader = body.getReader(), decoder = new TextDecoder();  // a pipe would drop what came before a loss
  let held = '', data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      held += decoder.decode(value, {stream: true});
      const lines = held.split(/\r\n|\n|\r(?!$)/);
      held = lines.pop();
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        else if (line === '' && data.length) {
          yield data.join('\n');
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/// The chunks of a streamed answer. Throws Failure, or AbortError once `signal` is aborted. A stream that ends without
/// [DONE] was cut off.
export async function* stream(path, body, signal) {
  const response = await request(path, {
    method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body), signal});
  try {
    for await (const data of events(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Failure('The server ended this answer with an error.', chunk.error.message ?? '');
      yield chunk;
    }
  } catch (error) {
    if (signal.aborted || error instanceof Failure || error instanceof SyntaxError) throw error;
  }
  throw new Failure('The connection was lost in the middle of the answer. What had arrived is kept.');
}
