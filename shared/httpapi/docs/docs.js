// Shows the operations and schemas of openapi.json. Text is only ever set as
// text, so nothing in the document can become markup.
'use strict';

const el = (tag, attrs, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) node.setAttribute(name, value);
  node.append(...children.filter((c) => c !== undefined && c !== null && c !== ''));
  return node;
};

const refName = (ref) => ref.split('/').pop();

// typeOf describes a schema in a few words, with a link for a named one.
const typeOf = (schema) => {
  if (!schema) return '';
  if (schema.$ref) return el('a', { href: '#schema-' + refName(schema.$ref) }, refName(schema.$ref));
  const types = [].concat(schema.type || []);
  if (types.includes('array')) return el('span', {}, 'list of ', typeOf(schema.items));
  if (schema.additionalProperties && typeof schema.additionalProperties === 'object') {
    return el('span', {}, 'map of ', typeOf(schema.additionalProperties));
  }
  const notes = [schema.format, schema.enum && schema.enum.map((v) => JSON.stringify(v)).join(' | ')];
  return [types.filter((t) => t !== 'null').join(' or '), ...notes.filter(Boolean)].join(', ');
};

const table = (rows) => el('table', {}, ...rows.map(([name, required, type, text]) =>
  el('tr', {}, el('td', {}, el('code', {}, name), required ? ' *' : ''), el('td', {}, type), el('td', {}, text || ''))));

const properties = (schema) => table(Object.entries(schema.properties || {}).map(([name, s]) =>
  [name, (schema.required || []).includes(name), typeOf(s), s.description]));

const content = (body) => Object.entries((body && body.content) || {}).map(([type, media]) =>
  el('span', {}, el('code', {}, type), ' ', typeOf(media.schema)));

const operation = (base, path, method, op) => {
  const box = el('div', {}, op.description ? el('p', {}, op.description) : '');
  if (op.parameters) {
    box.append(el('h4', {}, 'Parameters'), table(op.parameters.map((p) =>
      [p.name + ' (' + p.in + ')', p.required, typeOf(p.schema), p.description])));
  }
  if (op.requestBody) box.append(el('h4', {}, 'Body'), ...content(op.requestBody));
  box.append(el('h4', {}, 'Answers'), table(Object.entries(op.responses || {}).map(([status, r]) =>
    [status, false, el('span', {}, ...content(r)), r.description])));
  return el('details', { id: op.operationId || method + path },
    el('summary', {}, el('b', {}, method.toUpperCase()), el('code', {}, base + path), ' ',
      el('span', { class: 'quiet' }, op.summary || '')), box);
};

const show = (doc) => {
  const base = ((doc.servers || [])[0] || {}).url || '';
  const page = document.getElementById('api');
  document.title = doc.info.title;
  page.replaceChildren(
    el('h1', {}, doc.info.title, ' ', el('span', { class: 'quiet' }, doc.info.version)),
    el('p', {}, doc.info.description || ''),
    el('p', {}, 'Every operation needs the header ', el('code', {}, 'X-Api-Key'), '. Machine-readable: ',
      el('a', { href: 'openapi.json' }, 'openapi.json'), '. Fields and parameters with * are required.'),
    el('h2', {}, 'Operations'));
  for (const [path, item] of Object.entries(doc.paths || {})) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete']) {
      if (item[method]) page.append(operation(base, path, method, item[method]));
    }
  }
  page.append(el('h2', {}, 'Schemas'));
  for (const [name, schema] of Object.entries((doc.components || {}).schemas || {})) {
    page.append(el('details', { id: 'schema-' + name }, el('summary', {}, el('code', {}, name)), el('div', {}, properties(schema))));
  }
};

// A link to a schema opens it.
addEventListener('hashchange', () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === 'DETAILS') target.open = true;
});

fetch('openapi.json').then((r) => r.json()).then(show).catch((e) => {
  document.getElementById('api').textContent = 'openapi.json could not be loaded: ' + e;
});
