// Runs ONNX files with onnxruntime-web: node onnx_run.js FOLDER; output as that of onnx_eval.py.
const ort = require('onnxruntime-web');
const fs = require('fs');
const path = require('path');

const arrays = {float32: Float32Array, int32: Int32Array};
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
(async () => {
  const folder = process.argv[2];
  for (const c of JSON.parse(fs.readFileSync(path.join(folder, 'cases.json')))) {
    const session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(path.join(folder, c.file))));
    const feeds = {};
    for (const i of c.inputs) feeds[i.name] = new ort.Tensor(i.dtype, arrays[i.dtype].from(i.data), i.shape);
    const out = await session.run(feeds);
    console.log(JSON.stringify(session.outputNames.map((name) => Array.from(out[name].data))));
  }
})();
