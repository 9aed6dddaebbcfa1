// Runs the script of a profile's page without a browser: node page.js FOLDER. Elements are those that the page
// has by their ids; prints {id: text} as JSON, a table as its rows of cells, drawings as the texts in them.
'use strict';
const fs = require('fs');
const vm = require('vm');
const html = fs.readFileSync(process.argv[2] + '/index.html', 'utf8');

class Element {
  constructor(tag, attributes) {
    Object.assign(this, {tag, attributes, children: [], written: '', className: '', value: '', dataset: {}, drawn: []});
    this.style = {setProperty() {}};
    this.classList = {toggle() {}, add() {}, remove() {}};
    this.parentNode = {clientWidth: 800};
    this.clientWidth = 800;
  }
  get textContent() { return this.written + this.children.map((c) => c.textContent ?? String(c)).join(''); }
  set textContent(text) { this.children = []; this.written = String(text); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.written = ''; this.children = children; }
  addEventListener() {}
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  getBoundingClientRect() { return {left: 0, top: 0, width: 800, height: 200}; }
  getContext() { // numbers that are drawn have to be numbers
    const methods = {
      fillText: (text, ...at) => { finite(at); this.drawn.push(text); },
      measureText: (text) => ({width: 7 * text.length}),
    };
    return new Proxy(methods, {get: (all, name) => all[name] ?? ((...numbers) => finite(numbers)), set: () => true});
  }
  shown() {
    if (this.tag === 'canvas') return this.drawn;
    return this.tag === 'table' ? this.children.map((row) => row.children.map((c) => c.textContent)) : this.textContent;
  }
}

function finite(numbers) {
  for (const x of numbers) if (typeof x === 'number' && !Number.isFinite(x)) throw new Error('draws at ' + x);
}

const ids = {}, buttons = [];
for (const [, tag, rest] of html.slice(0, html.indexOf('<script>')).matchAll(/<(\w+)([^>]*)>/g)) {
  const attributes = Object.fromEntries([...rest.matchAll(/([\w-]+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
  const e = new Element(tag, attributes);
  if (attributes.id) ids[attributes.id] = e;
  if (attributes['data-by']) { e.dataset.by = attributes['data-by']; buttons.push(e); }
}
const document = {
  documentElement: new Element('html', {}),
  getElementById: (id) => ids[id] ?? null,
  createElement: (tag) => new Element(tag, {}),
  querySelectorAll: () => buttons,
};
vm.runInNewContext(html.match(/<script>([^]*)<\/script>/)[1], {
  document, devicePixelRatio: 1, innerWidth: 800, innerHeight: 600, addEventListener() {}, setTimeout, clearTimeout,
  getComputedStyle: () => ({getPropertyValue: () => '#123456'}),
});
const shown = () => Object.fromEntries(Object.entries(ids).map(([id, e]) => [id, e.shown()]));
const pages = {first: shown()};
for (const button of buttons) { button.onclick(); pages[button.dataset.by] = shown(); }
ids.filter.value = 'no such step';
ids.filter.oninput();
pages.filtered = shown();
console.log(JSON.stringify({title: document.title, ...pages}));
