// Making elements. Text always becomes a text node: nothing here parses HTML.

/// A new element. `attributes`: strings as they are, true for a bare attribute, false or null for none, onNAME for a listener.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const $ = (id) => document.getElementById(id);

const SVG = document.querySelector('svg').namespaceURI;

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  const use = document.createElementNS(SVG, 'use');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#i-' + name);
  svg.append(use);
  return svg;
}

/// A small button with an icon and words.
export function button(words, iconName, onclick) {
  return el('button', {type: 'button', onclick}, icon(iconName), el('span', {}, words));
}

/// Writes only what changed, so that selections and screen readers are left in peace.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/// One polite sentence for screen readers.
export function announce(sentence) {
  setText($('status'), sentence);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // no clipboard outside of secure origins: select and copy by hand
    const area = el('textarea', {class: 'unseen'});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

/// A button that copies what `text()` says.
export function copyButton(text) {
  const made = button('Copy', 'copy', async () => {
    await copy(text());
    made.lastChild.textContent = 'Copied';
    announce('Copied');
    setTimeout(() => { made.lastChild.textContent = 'Copy'; }, 1500);
    made.focus();
  });
  return made;
}

/// 12345 -> 12 345, with a thin space.
export function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? '' : 's'}`;
}

export function seconds(value) {
  if (value > 0 && value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(Number.isInteger(value) ? 0 : value < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
