// A small part of Markdown, built as DOM nodes: what a model wrote can never become markup of its own.
// Paragraphs, headings, code, lists, quotes, tables, rules; bold, italic, struck out, inline code, links to web pages.
import {copyButton, el} from './dom.js';

const DEEPEST = 8;  // nesting beyond this is shown as text: the work stays linear

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const COLUMNS = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const BLANK = /^\s*$/;

const startsTable = (lines, at) => {
  const below = lines[at + 1] ?? '';
  return lines[at].includes('|') && below.includes('|') && below.length < 1000 && COLUMNS.test(below);
};
const startsBlock = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line) || QUOTE.test(line);

/// Where the block that begins at line `at` ends, and what it is.
function blockEnd(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  let end = at + 1;
  if (fence) {
    const closing = new RegExp(`^ {0,3}\\${fence[1][0]}{${fence[1].length},}\\s*$`);
    while (end < lines.length && !closing.test(lines[end])) end++;
    return [Math.min(end + 1, lines.length), code, end];
  }
  if (HEADING.test(line)) return [end, heading];
  if (RULE.test(line)) return [end, () => el('hr')];
  if (QUOTE.test(line)) {
    while (end < lines.length && QUOTE.test(lines[end])) end++;
    return [end, quote];
  }
  if (ITEM.test(line)) {
    // Blank lines stay inside a list when an item or an indented line follows.
    while (end < lines.length) {
      let next = end;
      while (next < lines.length && BLANK.test(lines[next])) next++;
      if (next >= lines.length) break;
      const follows = ITEM.test(lines[next]) && !RULE.test(lines[next]) || /^\s{2,}\S/.test(lines[next]) ||
          next === end && !startsBlock(lines[next]);
      if (!follows) break;
      end = next + 1;
    }
    return [end, list];
  }
  if (startsTable(lines, at)) {
    end = at + 2;
    while (end < lines.length && lines[end].includes('|')) end++;
    return [end, table];
  }
  while (end < lines.length && !BLANK.test(lines[end]) && !startsBlock(lines[end]) && !startsTable(lines, end)) end++;
  return [end, paragraph];
}

/// [{raw, make}]: the text cut into blocks; make(depth) builds the node of one.
function blocks(text) {
  const lines = text.split('\n');
  const found = [];
  for (let at = 0; at < lines.length;) {
    if (BLANK.test(lines[at])) {
      at++;
      continue;
    }
    const [end, make, bodyEnd] = blockEnd(lines, at);
    const [own, body] = [lines.slice(at, end), bodyEnd - at];
    found.push({raw: own.join('\n'), kind: make, make: (depth) => make(own, depth, body)});
    at = end;
  }
  return found;
}

function code(lines, depth, bodyEnd) {
  const language = FENCE.exec(lines[0])[2].trim().split(/\s/)[0];
  const body = el('code', {}, lines.slice(1, bodyEnd).join('\n'));
  return el('div', {class: 'code'},
            el('div', {class: 'code-head'}, el('span', {}, language), copyButton(() => body.textContent)),
            el('pre', {tabindex: '0'}, body));
}

function heading(lines) {
  const [, marks, words] = HEADING.exec(lines[0]);
  return inline(words, el('h' + Math.min(marks.length + 2, 6)));  // h1 and h2 are the page's own
}

function paragraph(lines) {
  return inline(lines.map((line) => line.trim()).join('\n'), el('p'));
}

function quote(lines, depth) {
  return fill(el('blockquote'), lines.map((line) => line.replace(QUOTE, '')).join('\n'), depth + 1);
}

function list(lines, depth) {
  const [, lead, marker] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(marker);
  const items = [];  // of lines, without the indentation of their item
  let inset = 0;
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (match && match[1].length <= lead.length + 1) {
      items.push([match[3]]);
      inset = line.length - match[3].length;
    } else {
      items.at(-1).push(line.slice(Math.min(inset, line.length - line.trimStart().length)));
    }
  }
  return el(ordered ? 'ol' : 'ul', ordered ? {start: parseInt(marker, 10)} : {},
            ...items.map((own) => fill(el('li'), own.join('\n'), depth + 1)));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
  const row = (line, tag) => el('tr', {}, ...cells(line).map((cell) => inline(cell, el(tag))));
  return el('div', {class: 'table', tabindex: '0'}, el('table', {}, el('thead', {}, row(lines[0], 'th')),
            el('tbody', {}, ...lines.slice(2).map((line) => row(line, 'td')))));
}

// Inline marks, longest first.
const MARKS = [['***', ['strong', 'em']], ['**', ['strong']], ['__', ['strong']], ['~~', ['s']], ['*', ['em']], ['_', ['em']]];
const ESCAPABLE = '\\`*_{}[]()#+-.!~|<>';
const LINK = /\[([^\[\]\n]{1,500})\]\(\s*(https?:\/\/[^\s()<>]{1,2000})\s*\)/y;
const TICKS = /`+/y;
const word = (character) => character !== undefined && /[\p{L}\p{N}_]/u.test(character);
const space = (character) => character === undefined || /\s/.test(character);

/// Where the mark that opened before `from` closes; -1 when nowhere.
function closing(text, mark, from) {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    const run = mark[0];
    if (mark.length === 1 && text[at + 1] === run) {
      while (text[at + 1] === run) at++;  // belongs to a longer mark
      continue;
    }
    while (text[at + mark.length] === run) at++;
    if (at > from && !space(text[at - 1]) && text[at - 1] !== '\\' && !(run === '_' && word(text[at + mark.length]))) return at;
  }
  return -1;
}

/// Appends `text` to `parent`, marks made into elements.
function inline(text, parent, depth = 0) {
  const dead = new Set();  // marks that close nowhere in the rest
  let plain = '', at = 0;
  const put = (node) => {
    if (plain) parent.append(plain);
    plain = '';
    if (node) parent.append(node);
  };
  const special = () => {
    const here = text[at];
    if (here === '\\' && at + 1 < text.length && ESCAPABLE.includes(text[at + 1])) {
      plain += text[at + 1];
      at += 2;
      return true;
    }
    if (here === '`') return codeSpan();
    if (here === '[') {
      LINK.lastIndex = at;
      const link = LINK.exec(text);
      if (!link) return false;
      put(inline(link[1], el('a', {href: link[2], target: '_blank', rel: 'noopener noreferrer'}), depth + 1));
      at += link[0].length;
      return true;
    }
    return depth < DEEPEST && MARKS.some(([mark, tags]) => emphasis(mark, tags));
  };
  const codeSpan = () => {
    TICKS.lastIndex = at;
    const ticks = TICKS.exec(text)[0];
    let end = dead.has(ticks) ? -1 : text.indexOf(ticks, at + ticks.length);
    while (end >= 0 && text[end + ticks.length] === '`') {
      while (text[end] === '`') end++;
      end = text.indexOf(ticks, end);
    }
    if (end < 0) {
      dead.add(ticks);
      plain += ticks;
      at += ticks.length;
      return true;
    }
    put(el('code', {}, text.slice(at + ticks.length, end).replace(/^ (.*[^ ].*) $/s, '$1')));
    at = end + ticks.length;
    return true;
  };
  const emphasis = (mark, tags) => {
    if (!text.startsWith(mark, at) || dead.has(mark) || space(text[at + mark.length])) return false;
    if (mark[0] === '_' && word(text[at - 1])) return false;
    const end = closing(text, mark, at + mark.length);
    if (end < 0) {
      dead.add(mark);
      return false;
    }
    const outer = el(tags[0]);
    const inner = tags[1] ? outer.appendChild(el(tags[1])) : outer;
    inline(text.slice(at + mark.length, end), inner, depth + 1);
    put(outer);
    at = end + mark.length;
    return true;
  };
  while (at < text.length) {
    if (!special()) plain += text[at++];
  }
  put(null);
  return parent;
}

function fill(container, text, depth) {
  if (depth >= DEEPEST) container.append(el('p', {}, text));
  else container.append(...blocks(text).map((block) => block.make(depth)));
  return container;
}

const shown = new WeakMap();  // container -> its blocks

/// Makes `container` show `text`. Blocks that have not changed keep their nodes: an answer that grows costs its last block.
export function render(container, text) {
  const old = shown.get(container) ?? [];
  const now = blocks(text);
  for (let i = 0; i < now.length; i++) {
    if (i < old.length && old[i].raw === now[i].raw) {
      now[i].node = old[i].node;
      continue;
    }
    now[i].node = now[i].make(0);
    if (i >= old.length) {
      container.append(now[i].node);
    } else if (now[i].kind === code && old[i].kind === code) {
      const [body, grown] = [old[i].node, now[i].node].map((node) => node.querySelector('code'));
      old[i].node.querySelector('.code-head span').textContent = now[i].node.querySelector('.code-head span').textContent;
      body.textContent = grown.textContent;
      now[i].node = old[i].node;
    } else {
      old[i].node.replaceWith(now[i].node);
    }
  }
  for (const gone of old.slice(now.length)) gone.node.remove();
  shown.set(container, now);
}
