// The page's start: who listens to which key and button.
import {getJson} from './api.js';
import {answering, cancelEdit, isEditing, keyGiven, newChat, onKeyWanted, restore, send, setModel, stop} from './chat.js';
import {$, announce, setText} from './dom.js';
import {showEngine} from './engine.js';
import {startSettings} from './settings.js';
import {followAgain} from './view.js';

const THEME = 'evros.theme';
const THEMES = ['system', 'light', 'dark'];

/// The reader's choice, or the system's.
function startTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let theme = THEMES[0];
  const apply = () => {
    document.documentElement.dataset.theme = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme;
    $('theme').title = `Colours: ${theme === 'system' ? 'as the system has them' : theme}`;
    $('theme').setAttribute('aria-label', $('theme').title);
  };
  try {
    theme = THEMES.find((known) => known === localStorage.getItem(THEME)) ?? theme;
  } catch { /* no storage */ }
  apply();
  dark.addEventListener('change', apply);
  $('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    apply();
    announce($('theme').title);
    try {
      localStorage.setItem(THEME, theme);
    } catch { /* no storage */ }
  });
}

const PANELS = ['engine', 'settings'];
let panel = null;

/// Shows one panel, or none; the keyboard goes along.
function showPanel(name) {
  const before = panel;
  panel = name;
  for (const each of PANELS) {
    $(each).hidden = each !== name;
    $(each + '-button').setAttribute('aria-expanded', each === name);
  }
  document.body.classList.toggle('with-panel', name !== null);
  showEngine(name === 'engine');
  if (name) $(name).querySelector('.close').focus();
  else if (before) $(before + '-button').focus();
}

function startPanels() {
  for (const each of PANELS) {
    $(each + '-button').addEventListener('click', () => showPanel(panel === each ? null : each));
    $(each).querySelector('.close').addEventListener('click', () => showPanel(null));
  }
}

function startComposer() {
  const prompt = $('prompt');
  const fit = () => {
    prompt.style.height = 'auto';
    prompt.style.height = `${Math.min(prompt.scrollHeight + 2, innerHeight * 0.4)}px`;
    $('send').disabled = prompt.value.trim() === '';
  };
  prompt.addEventListener('input', fit);
  addEventListener('resize', fit);
  fit();
  prompt.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  });
  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    prompt.focus();
    send();
  });
  $('stop').addEventListener('click', () => {
    prompt.focus();
    stop();
  });
  $('edit-cancel').addEventListener('click', cancelEdit);
  $('latest').addEventListener('click', () => {
    followAgain();
    prompt.focus();
  });
  for (const example of $('examples').querySelectorAll('button')) {
    example.addEventListener('click', () => {
      prompt.value = example.textContent;
      fit();
      prompt.focus();
      send();
    });
  }
}

/// Esc: what is most urgent.
function escape(event) {
  if (event.key !== 'Escape' || event.isComposing) return;
  if (answering()) stop();
  else if (panel) showPanel(null);
  else if (isEditing()) cancelEdit();
  else return;
  event.preventDefault();
}

function askKey() {
  showPanel('settings');
  $('key').focus();
  announce('The server asks for an API key.');
}

async function greet() {
  try {
    const {data} = await getJson('/v1/models');
    setModel(data[0].id);
    setText($('model'), data[0].id);
  } catch (error) {
    setText($('model'), error.status === 401 ? 'asks for an API key' : 'no answer');
    if (error.status === 401) askKey();
  }
}

startTheme();
startSettings();
startPanels();
startComposer();
document.addEventListener('keydown', escape);
$('new-chat').addEventListener('click', () => {
  if (panel && matchMedia('(max-width: 52rem)').matches) showPanel(null);
  newChat();
});
onKeyWanted(askKey);
$('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  showPanel(null);
  $('prompt').focus();
  greet();
  keyGiven();
});
restore();
followAgain();
greet();
