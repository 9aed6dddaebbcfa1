-- keras.onnx: export(model, path, …) writes an ONNX file, import(path, …) makes a model of one.
return {export = require "ipulua.keras.onnx.export", import = require "ipulua.keras.onnx.import"}
