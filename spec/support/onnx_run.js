// Runs ONNX files with onnxruntime-web: node onnx_run.js FOLDER [typed]; output as that of onnx_eval.py. typed: lines are lists of
// {dtype, shape, data}, or {error} where onnxruntime refuses the file; numbers that JSON hasn't, and int64, are strings.
const ort = require('onnxruntime-web');
const fs = require('fs');
const path = require('path');

const arrays = {float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array, int8: Int8Array,
  uint8: Uint8Array, bool: Uint8Array};
const number = (x, dtype) => dtype === 'int64' ? BigInt(x) : x === 'inf' ? Infinity : x === '-inf' ? -Infinity : typeof x === 'string' ? NaN : Number(x);
const told = (x) => typeof x === 'bigint' || (typeof x === 'number' && !(Math.abs(x) < 1e15)) ? String(x) : x;
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';
(async () => {
  const [folder, typed] = process.argv.slice(2);
  for (const c of JSON.parse(fs.readFileSync(path.join(folder, 'cases.json')))) {
    try {
      const session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(path.join(folder, c.file))), {logSeverityLevel: 4});
      const feeds = {};
      for (const i of c.inputs) feeds[i.name] = new ort.Tensor(i.dtype, arrays[i.dtype].from(i.data.map((x) => number(x, i.dtype))), i.shape);
      const out = await session.run(feeds);
      console.log(JSON.stringify(session.outputNames.map((name) => {
        const data = Array.from(out[name].data, told);
        return typed ? {dtype: out[name].type, shape: out[name].dims, data} : data;
      })));
    } catch (e) {
      if (!typed) throw e;
      console.log(JSON.stringify({error: String(e.message || e)}));
    }
  }
})();
