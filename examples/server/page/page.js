// The chat and the dashboard. No text of a model is ever put in as HTML: elements are made one by one.
'use strict';
const byId = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
let messages = [];
let running = null;
const thinkers = new Set();

// `code`, **strong**, *emphasis*, [text](address) within a line.
function inline(parent, text) {
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?!\w)|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    parent.append(text.slice(at, match.index));
    if (match[5]) {
      const link = parent.appendChild(make('a', match[4]));
      link.href = match[5];
      link.rel = 'noopener noreferrer';
      link.target = '_blank';
    } else {
      const kind = match[1] !== undefined ? 'code' : match[2] !== undefined ? 'strong' : 'em';
      parent.append(make(kind, match[1] ?? match[2] ?? match[3]));
    }
    at = match.index + match[0].length;
  }
  parent.append(text.slice(at));
  return parent;
}

function codeBlock(text) {
  const pre = make('pre');
  pre.append(make('code', text));
  const copy = pre.appendChild(make('button', 'Copy'));
  copy.type = 'button';
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = 'Copied';
  });
  return pre;
}

function table(rows) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim());
  const box = make('div', undefined, 'wide');
  const grid = box.appendChild(make('table'));
  rows.forEach((line, i) => {
    if (i === 1) return;  // the line of dashes
    const row = grid.appendChild(make('tr'));
    for (const cell of cells(line)) inline(row.appendChild(make(i ? 'td' : 'th')), cell);
  });
  return box;
}

// Fenced code, headings, lists (also nested), quotes, tables, rules, paragraphs.
function markdown(text) {
  const box = make('div');
  const lines = text.split('\n');
  let paragraph = null, lists = [];
  const end = () => { paragraph = null; lists = []; };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const fence = line.match(/^\s*(```+|~~~+)/);
    const heading = line.match(/^(#{1,6})\s+(.*)/);
    const item = line.match(/^(\s*)(?:([-*+])|(\d+)[.)])\s+(.*)/);
    const quote = line.match(/^>\s?(.*)/);
    if (fence) {
      const code = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i]);
      box.append(codeBlock(code.join('\n')));
      end();
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      box.append(make('hr'));
      end();
    } else if (heading) {
      inline(box.appendChild(make('h' + Math.min(6, heading[1].length + 2))), heading[2]);
      end();
    } else if (line.includes('|') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-*:?\s*)*$/.test(lines[i + 1] ?? '') && lines[i + 1].includes('-')) {
      const rows = [];
      for (; i < lines.length && lines[i].includes('|'); i++) rows.push(lines[i]);
      i--;
      box.append(table(rows));
      end();
    } else if (item) {
      const depth = item[1].replace(/\t/g, '    ').length;
      const kind = item[2] ? 'UL' : 'OL';
      while (lists.length && (lists.at(-1).depth > depth || (lists.at(-1).depth === depth && lists.at(-1).element.tagName !== kind))) lists.pop();
      if (!lists.length || lists.at(-1).depth < depth) {
        const parent = lists.length ? lists.at(-1).element.lastElementChild : box;
        const element = parent.appendChild(make(kind));
        if (item[3] && item[3] !== '1') element.start = Number(item[3]);
        lists.push({ depth, element });
      }
      inline(lists.at(-1).element.appendChild(make('li')), item[4]);
      paragraph = null;
    } else if (quote) {
      if (!paragraph || paragraph.tagName !== 'BLOCKQUOTE') paragraph = box.appendChild(make('blockquote'));
      else paragraph.append('\n');
      inline(paragraph, quote[1]);
      lists = [];
    } else if (!line.trim()) {
      paragraph = null;
    } else if (lists.length && /^\s/.test(line)) {
      inline(lists.at(-1).element.lastElementChild, ' ' + line.trim());
    } else {
      if (paragraph && paragraph.tagName === 'P') paragraph.append('\n');
      else paragraph = box.appendChild(make('p'));
      inline(paragraph, line);
      lists = [];
    }
  }
  return box;
}

function show(role, text) {
  const box = byId('chat').appendChild(make('div', undefined, 'message ' + role));
  if (text !== undefined) box.textContent = text;
  box.scrollIntoView({ block: 'end' });
  return box;
}

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

// Shows an answer as it grows; the text is laid out once a frame at most, however fast tokens come.
class Shown {
  constructor() {
    this.box = show('assistant waiting');
    this.content = this.box.appendChild(make('div'));
    this.text = this.thoughts = '';
    this.frame = 0;
  }
  add(text, thoughts) {
    this.text += text;
    this.thoughts += thoughts;
    this.frame ||= requestAnimationFrame(() => this.lay());
  }
  lay() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const chat = byId('chat');
    const near = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 120;
    if (this.thoughts) {
      if (!this.fold) {
        this.fold = make('details');
        this.fold.append(make('summary'), make('div'));
        this.box.prepend(this.fold);
      }
      this.fold.firstChild.textContent = this.text ? 'Thoughts' : 'Thinking …';
      this.fold.lastChild.textContent = this.thoughts;
    }
    const fresh = markdown(this.text);
    this.content.replaceWith(fresh);
    this.content = fresh;
    if (near) chat.scrollTop = chat.scrollHeight;
  }
  end(note) {
    this.box.classList.remove('waiting');
    this.box.append(make('small', note));
    this.lay();
  }
}

async function ask(text) {
  const asked = { role: 'user', content: text };
  messages.push(asked);
  show('user', text);
  const shown = new Shown();
  running = new AbortController();
  byId('send').textContent = 'Stop';
  byId('send').classList.add('stop');
  let whole = false;
  try {
    const model = byId('models').value;
    const request = { model, messages, stream: true };
    if (thinkers.has(model)) request.think = byId('think').checked;
    const response = await fetch('api/chat', {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...key() },
      body: JSON.stringify(request), signal: running.signal });
    if (!response.ok) throw new Error((await response.json()).error);
    for await (const piece of lines(response)) {
      if (piece.error) throw new Error(piece.error);
      shown.add(piece.message.content, piece.message.thinking ?? '');
      if (!piece.done) continue;
      whole = true;
      const rate = piece.eval_count / (piece.eval_duration / 1e9);
      const end = piece.done_reason === 'length' ? ' · cut at its limit' : '';
      const cut = piece.truncated ? ' · earlier messages were forgotten' : '';
      shown.end(`${piece.eval_count} tokens · ${rate.toFixed(1)} a second${end}${cut}`);
    }
    if (!whole) throw new Error('the connection broke off');
  } catch (error) {
    if (error.name === 'AbortError') {
      shown.end('stopped');
      whole = true;
    } else {
      shown.lay();
      shown.box.classList.remove('waiting');
      if (!shown.text && !shown.thoughts) shown.box.remove();
      show('error', error.message);
    }
  }
  // What failed is not part of the conversation.
  if (whole) messages.push({ role: 'assistant', content: shown.text });
  else messages = messages.filter((message) => message !== asked);
  running = null;
  byId('send').textContent = 'Send';
  byId('send').classList.remove('stop');
}

const key = () => (sessionStorage.key_ ? { Authorization: 'Bearer ' + sessionStorage.key_ } : {});

async function get(path) {
  let response = await fetch(path, { headers: key() });
  if (response.status === 401) {
    const given = prompt('This server wants an API key');
    if (given) {
      sessionStorage.key_ = given;
      response = await fetch(path, { headers: key() });
    }
  }
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

function chosen() {
  byId('think-box').hidden = !thinkers.has(byId('models').value);
  localStorage.model = byId('models').value;
}

async function list() {
  const models = (await get('api/tags')).models.filter((m) => m.capabilities.includes('completion'));
  const loaded = (await get('api/ps')).models.map((m) => m.name);
  for (const m of models) if (m.capabilities.includes('thinking')) thinkers.add(m.name);
  models.sort((a, b) => loaded.includes(b.name) - loaded.includes(a.name));
  byId('models').replaceChildren(...models.map((m) => make('option', m.name)));
  const names = models.map((m) => m.name);
  if (names.includes(localStorage.model)) byId('models').value = localStorage.model;
  byId('chat').dataset.hint = models.length
    ? 'Ask something. Enter sends, Shift+Enter begins a new line.'
    : 'There is no model here yet. Start the server with a GGUF file, or fetch one: ollama pull NAME';
  byId('send').disabled = !models.length;
  chosen();
}

const size = (bytes) => (bytes > 1e9 ? (bytes / 1e9).toFixed(1) + ' GB' : (bytes / 1e6).toFixed(1) + ' MB');
const rates = new Map();

// parts: [kind, share of the whole].
function bar(parts, kind) {
  const box = make('div', undefined, 'bar' + (kind ? ' ' + kind : ''));
  for (const [name, share] of parts) box.appendChild(make('i', undefined, name)).style.width = Math.max(0, 100 * share) + '%';
  return box;
}

function facts(rows) {
  const box = make('dl');
  for (const [name, value, kind] of rows) if (value !== undefined) box.append(make('dt', name), make('dd', value, kind));
  return box;
}

const sum = (ranks, name) => ranks.reduce((all, rank) => all + (rank[name] ?? 0), 0);
const shares = (ranks, all) => [
  ['weights', sum(ranks, 'weights_bytes') / all], ['cache', sum(ranks, 'kv_bytes') / all],
  ['other', (sum(ranks, 'state_bytes') + sum(ranks, 'scratch_bytes') + sum(ranks, 'comm_bytes')) / all]];

// What the models take of a device, what others take, and below it what the plan had said.
function device(d, models) {
  const mine = (ranks) => ranks.filter((rank) => rank.device.split(':')[0] === d.name || rank.device === d.name);
  const real = models.flatMap((m) => mine(m.memory)), planned = models.flatMap((m) => mine(m.plan));
  const used = d.total_bytes - d.free_bytes, ours = sum(real, 'total_bytes');
  const box = make('section');
  box.append(make('h3', d.model ? `${d.name}: ${d.model}` : d.name));
  box.append(bar([...shares(real, d.total_bytes), ['elsewhere', (used - ours) / d.total_bytes]]));
  box.append(bar(shares(planned, d.total_bytes), 'plan'));
  const legend = box.appendChild(make('div', undefined, 'key'));
  for (const [name, text] of [['weights', 'weights'], ['cache', 'cache'], ['other', 'work space'], ['elsewhere', 'other programs']])
    legend.appendChild(make('span', text)).style.setProperty('--of', `var(--${name})`);
  box.append(facts([
    ['models', `${size(ours)}, planned ${size(sum(planned, 'total_bytes'))}`],
    ['free', `${size(d.free_bytes)} of ${size(d.total_bytes)}`],
    ['temperature', d.temperature_c === undefined ? undefined : `${d.temperature_c.toFixed(0)} °C`, 'state-' + d.state],
    ['power', d.power_w === undefined ? undefined : `${d.power_w.toFixed(0)} W`],
    ['slowed by heat', d.throttle_events ? `${d.throttle_events} times` : undefined],
    ['state', d.state === 'ok' ? undefined : d.state, 'state-' + d.state]]));
  return box;
}

function rateLine(values) {
  const box = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const most = Math.max(1, ...values);
  box.setAttribute('class', 'rate');
  box.setAttribute('viewBox', '0 0 60 20');
  box.setAttribute('preserveAspectRatio', 'none');
  const line = box.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'polyline'));
  line.setAttribute('points', values.map((v, i) => `${i + 60 - values.length},${19.5 - 19 * v / most}`).join(' '));
  return box;
}

function model(m) {
  const box = make('section');
  const title = box.appendChild(make('h3', m.name));
  const unload = title.appendChild(make('button', 'Unload'));
  unload.type = 'button';
  unload.addEventListener('click', () => fetch('api/generate', {
    method: 'POST', headers: { 'Content-Type': 'application/json', ...key() },
    body: JSON.stringify({ model: m.name, keep_alive: 0 }) }));
  const now = performance.now();
  const before = rates.get(m.name) ?? { at: now, tokens: m.generated_tokens, values: [] };
  const rate = now > before.at ? (m.generated_tokens - before.tokens) / (now - before.at) * 1000 : 0;
  rates.set(m.name, { at: now, tokens: m.generated_tokens, values: [...before.values, Math.max(0, rate)].slice(-60) });
  box.append(rateLine(rates.get(m.name).values));
  box.append(facts([
    ['tokens a second', rate.toFixed(1)], ['running', `${m.running} of ${m.parallel}`], ['waiting', String(m.waiting)],
    ['context', `${m.context_length} tokens`],
    ['step', m.step_us_p50 ? `${(m.step_us_p50 / 1000).toFixed(1)} ms (99 %: ${(m.step_us_p99 / 1000).toFixed(1)} ms)` : undefined],
    ['pages', m.pages ? `${m.pages_held} held, ${m.pages_cached} cached, of ${m.pages}` : undefined],
    ['state', m.state ? ['', 'degraded', 'lost'][m.state] : undefined, 'state-lost']]));
  if (m.pages) box.append(bar([['weights', m.pages_held / m.pages], ['cache', m.pages_cached / m.pages]]));
  return box;
}

async function board() {
  const box = byId('board');
  if (box.hidden || document.hidden) return;
  const { models, devices } = await get('status');
  box.replaceChildren(make('h2', 'Devices'), ...devices.map((d) => device(d, models)),
    make('h2', models.length ? 'Loaded models' : 'No model is loaded'), ...models.map(model));
}

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = byId('text').value.trim();
  if (!text) return;
  byId('text').value = '';
  byId('text').style.height = '';
  ask(text);
});
byId('text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!running) byId('ask').requestSubmit();
  }
});
byId('text').addEventListener('input', () => {
  byId('text').style.height = '';
  byId('text').style.height = byId('text').scrollHeight + 2 + 'px';
});
byId('models').addEventListener('change', chosen);
byId('clear').addEventListener('click', () => {
  if (running) running.abort();
  messages = [];
  byId('chat').replaceChildren();
});
byId('board-switch').addEventListener('click', () => {
  byId('board').hidden = !byId('board').hidden;
  byId('board-switch').setAttribute('aria-expanded', String(!byId('board').hidden));
  board();
});
setInterval(() => board().catch(() => {}), 1000);
list().catch((error) => show('error', error.message));
