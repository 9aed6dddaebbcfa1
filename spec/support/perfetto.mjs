// Opens trace files in Perfetto's own trace processor, the WebAssembly build that its page runs as a worker:
// node perfetto.mjs ENGINE_FOLDER TRACE...
// A line of JSON for each: {tracks: {name: {slices, ns, last}}, names: {slice: count}, complaints: {statistic: count}}.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

const [folder, ...traces] = process.argv.slice(2);
const file = (name) => path.resolve(folder, name);

// What a worker of a browser has and the engine looks for.
const wasm = readFileSync(file('trace_processor.wasm'));
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = { href: pathToFileURL(file('.')).href + '/' };
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = class {
  open() {}
  send() {
    this.status = 200;
    this.response = wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.length);
  }
};
console.warn = () => {};

// The build with 64-bit addresses isn't there: the probe for them, a module of one memory section, has to fail.
const { Module } = WebAssembly;
WebAssembly.Module = function (bytes, ...rest) {
  if (bytes[8] === 5) throw new WebAssembly.CompileError('32-bit addresses only');
  return new Module(bytes, ...rest);
};

vm.runInThisContext(readFileSync(file('engine_bundle.node.js'), 'utf8'));
const { EngineBase } = await import(pathToFileURL(file('engine.mjs')).href);

class Engine extends EngineBase {
  mode = 'WASM';
  id = 'trace processor';
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => this.onRpcResponseBytes(message.data);
  }
  rpcSendRequestBytes(data) {
    this.port.postMessage(data);
  }
}

const { port1, port2 } = new MessageChannel();
self.onmessage({ data: port1 });
const engine = new Engine(port2);

async function rows(sql) {
  const result = await engine.query(sql);
  if (result.error()) throw new Error(result.error());
  const found = [];
  for (const it = result.iter({}); it.valid(); it.next())
    found.push(Object.fromEntries(result.columns().map((c) => [c, typeof it.get(c) === 'bigint' ? Number(it.get(c)) : it.get(c)])));
  return found;
}

for (const trace of traces) {
  engine.resetTraceProcessor({
    tokenizeOnly: false,
    ingestFtraceInRawTable: false,
    analyzeTraceProtoContent: false,
    ftraceDropUntilAllCpusValid: false,
  });
  await engine.parse(new Uint8Array(readFileSync(trace)));
  await engine.notifyEof();
  const told = { tracks: {}, names: {}, complaints: {} };
  for (const r of await rows(
    'select thread.name as name, count(*) as slices, sum(dur) as ns, max(ts + dur) as last ' +
      'from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) group by thread.name'
  ))
    told.tracks[r.name] = { slices: r.slices, ns: r.ns, last: r.last };
  for (const r of await rows('select name, count(*) as n from slice group by name')) told.names[r.name] = r.n;
  for (const r of await rows("select name, value from stats where value > 0 and severity != 'info'")) told.complaints[r.name] = r.value;
  console.log(JSON.stringify(told));
}
process.exit(0);
