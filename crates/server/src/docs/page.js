'use strict';
// Draws /openapi.json. Everything is put in as text, so nothing in the description can become markup.

const element = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

const typeOf = (schema) => {
  if (!schema) return '';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const options = schema.oneOf || schema.anyOf || schema.allOf;
  if (options) return options.map(typeOf).join(schema.allOf ? ' & ' : ' | ');
  if (Array.isArray(schema.type)) return schema.type.join(' | ');
  if (schema.type === 'array') return `${typeOf(schema.items)}[]`;
  return schema.type || 'any';
};

const table = (heads, rows) => {
  const made = element('table');
  const head = made.createTHead().insertRow();
  heads.forEach((text) => head.append(element('th', text)));
  const body = made.createTBody();
  rows.forEach((cells) => {
    const row = body.insertRow();
    cells.forEach((text, column) => {
      const cell = row.insertCell();
      cell.append(column === 0 ? element('code', text) : text);
    });
  });
  return made;
};

const drawCall = (path, method, call) => {
  const box = element('details');
  box.dataset.words = `${method} ${path} ${call.operationId} ${call.description || call.summary || ''}`.toLowerCase();
  const line = element('summary');
  line.append(element('span', method.toUpperCase(), 'method'), element('code', path), ` ${call.summary || ''}`);
  const inside = element('div');
  if (call.description) inside.append(element('p', call.description));
  if (call.parameters && call.parameters.length) {
    inside.append(element('h4', 'Parameters'), table(['name', 'where', 'type', ''],
      call.parameters.map((p) => [p.name, p.in, typeOf(p.schema), p.description || ''])));
  }
  if (call.requestBody) {
    inside.append(element('h4', 'Body'));
    Object.entries(call.requestBody.content).forEach(([kind, content]) => inside.append(element('p', `${kind}: ${typeOf(content.schema)}`)));
  }
  inside.append(element('h4', 'Answers'), table(['status', 'body', ''],
    Object.entries(call.responses).map(([status, answer]) =>
      [status, Object.values(answer.content || {}).map((content) => typeOf(content.schema)).join(', '), answer.description || ''])));
  box.append(line, inside);
  return box;
};

const drawShape = (name, schema) => {
  const box = element('details');
  box.id = name;
  box.append(element('summary', name));
  const inside = element('div');
  if (schema.description) inside.append(element('p', schema.description));
  if (schema.properties) {
    const required = new Set(schema.required || []);
    inside.append(table(['field', 'type', ''], Object.entries(schema.properties).map(([field, shape]) =>
      [required.has(field) ? field : `${field}?`, typeOf(shape), shape.description || ''])));
  } else {
    inside.append(element('p', typeOf(schema)));
  }
  if (schema.example) inside.append(element('pre', JSON.stringify(schema.example, null, 2)));
  box.append(inside);
  return box;
};

const draw = (api) => {
  document.getElementById('about').textContent = `${api.info.version} — ${api.info.description}`;
  const groups = new Map();
  Object.entries(api.paths).forEach(([path, calls]) => Object.entries(calls).forEach(([method, call]) => {
    const tag = (call.tags || ['Other'])[0];
    if (!groups.has(tag)) groups.set(tag, []);
    groups.get(tag).push(drawCall(path, method, call));
  }));
  const main = document.getElementById('calls');
  groups.forEach((calls, tag) => main.append(element('h2', tag), ...calls));
  document.getElementById('shapes').append(...Object.entries(api.components.schemas).map(([name, schema]) => drawShape(name, schema)));
  document.getElementById('find').addEventListener('input', (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    main.querySelectorAll('details').forEach((box) => { box.hidden = !words.every((word) => box.dataset.words.includes(word)); });
  });
};

fetch('/openapi.json').then((answer) => answer.json()).then(draw).catch((error) => {
  document.getElementById('about').textContent = `The description could not be read: ${error}`;
});
