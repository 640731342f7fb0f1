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

// `code`, **strong** and *emphasis* within a line.
function inline(parent, text) {
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*/g;
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    parent.append(text.slice(at, match.index));
    const kind = match[1] !== undefined ? 'code' : match[2] !== undefined ? 'strong' : 'em';
    parent.append(make(kind, match[1] ?? match[2] ?? match[3]));
    at = match.index + match[0].length;
  }
  parent.append(text.slice(at));
}

// Fenced code, headings, lists, paragraphs.
function markdown(text) {
  const box = make('div');
  const lines = text.split('\n');
  let paragraph = null, list = null;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const heading = line.match(/^(#{1,6})\s+(.*)/);
    const item = line.match(/^\s*(?:([-*+])|\d+[.)])\s+(.*)/);
    if (line.startsWith('```')) {
      const code = [];
      for (i++; i < lines.length && !lines[i].startsWith('```'); i++) code.push(lines[i]);
      const pre = make('pre');
      pre.append(make('code', code.join('\n')));
      box.append(pre);
      paragraph = list = null;
    } else if (heading) {
      inline(box.appendChild(make('h' + Math.min(6, heading[1].length + 2))), heading[2]);
      paragraph = list = null;
    } else if (item) {
      const kind = item[1] ? 'UL' : 'OL';
      if (!list || list.tagName !== kind) list = box.appendChild(make(kind));
      inline(list.appendChild(make('li')), item[2]);
      paragraph = null;
    } else if (!line.trim()) {
      paragraph = list = null;
    } else {
      if (paragraph) paragraph.append('\n');
      else paragraph = box.appendChild(make('p'));
      inline(paragraph, line);
      list = null;
    }
  }
  return box;
}

function show(role, text) {
  const box = byId('chat').appendChild(make('div', undefined, 'message ' + role));
  if (role === 'assistant') return box;
  box.textContent = text;
  box.scrollIntoView();
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

async function ask(text) {
  messages.push({ role: 'user', content: text });
  show('user', text);
  const box = show('assistant');
  const thoughts = make('details');
  thoughts.append(make('summary', 'Thinking'));
  const thinking = thoughts.appendChild(make('div'));
  let content = box.appendChild(make('div'));
  const answer = { role: 'assistant', content: '' };
  running = new AbortController();
  byId('send').textContent = 'Stop';
  const chat = byId('chat');
  try {
    const request = { model: byId('models').value, messages, stream: true };
    if (!byId('think').checked) request.think = false;
    const response = await fetch('api/chat', {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...key() },
      body: JSON.stringify(request), signal: running.signal });
    if (!response.ok) throw new Error((await response.json()).error);
    for await (const piece of lines(response)) {
      if (piece.error) throw new Error(piece.error);
      const near = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 80;
      if (piece.message.thinking) {
        if (!thoughts.isConnected) box.prepend(thoughts);
        thinking.textContent += piece.message.thinking;
      }
      if (piece.message.content) {
        answer.content += piece.message.content;
        const fresh = markdown(answer.content);
        content.replaceWith(fresh);
        content = fresh;
      }
      if (piece.done) {
        const rate = piece.eval_count / (piece.eval_duration / 1e9);
        box.append(make('small', `${piece.eval_count} tokens, ${rate.toFixed(1)} a second, ${piece.done_reason}`));
      }
      if (near) chat.scrollTop = chat.scrollHeight;
    }
  } catch (error) {
    if (error.name !== 'AbortError') show('error', error.message);
  }
  messages.push(answer);
  running = null;
  byId('send').textContent = 'Send';
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
  return response.json();
}

async function list() {
  const { models } = await get('api/tags');
  const loaded = (await get('api/ps')).models.map((m) => m.name);
  models.sort((a, b) => loaded.includes(b.name) - loaded.includes(a.name));
  byId('models').replaceChildren(...models.map((m) => make('option', m.name)));
}

const size = (bytes) => (bytes > 1e9 ? (bytes / 1e9).toFixed(1) + ' GB' : (bytes / 1e6).toFixed(1) + ' MB');
const last = new Map();

function bar(parts) {
  const box = make('div', undefined, 'bar');
  for (const part of parts) box.appendChild(make('i')).style.width = Math.max(0, 100 * part) + '%';
  return box;
}

async function board() {
  const box = byId('board');
  if (box.hidden || document.hidden) return;
  const { models } = await get('status');
  box.replaceChildren(make('h2', models.length ? 'Loaded models' : 'No model is loaded'));
  for (const m of models) {
    const now = performance.now();
    const before = last.get(m.name) ?? { at: now, tokens: m.generated_tokens };
    const rate = now > before.at ? (m.generated_tokens - before.tokens) / (now - before.at) * 1000 : 0;
    last.set(m.name, { at: now, tokens: m.generated_tokens });
    box.append(make('h3', m.name));
    for (const rank of m.memory) {
      box.append(make('div', `${rank.device}: weights ${size(rank.weights_bytes)}, cache ${size(rank.kv_bytes)}, ` +
        `other ${size(rank.state_bytes + rank.scratch_bytes)}`));
      const all = rank.total_bytes || 1;
      box.append(bar([rank.weights_bytes / all, rank.kv_bytes / all, (rank.state_bytes + rank.scratch_bytes) / all]));
    }
    box.append(make('div', `pages: ${m.pages_held} held, ${m.pages_cached} cached, of ${m.pages}`));
    box.append(bar([m.pages_held / m.pages, m.pages_cached / m.pages]));
    box.append(make('div', `${m.running} running of ${m.parallel}, ${m.waiting} waiting, ${rate.toFixed(1)} tokens a second`));
  }
}

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = byId('text').value.trim();
  if (!text) return;
  byId('text').value = '';
  ask(text);
});
byId('text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!running) byId('ask').requestSubmit();
  }
});
byId('clear').addEventListener('click', () => {
  if (running) running.abort();
  messages = [];
  byId('chat').replaceChildren();
});
byId('board-switch').addEventListener('click', () => {
  byId('board').hidden = !byId('board').hidden;
  board();
});
setInterval(() => board().catch(() => {}), 1000);
list().catch((error) => show('error', error.message));
