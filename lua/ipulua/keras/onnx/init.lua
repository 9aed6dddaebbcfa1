-- keras.onnx: models to ONNX files and back.
return {export = require "ipulua.keras.onnx.export", import = require "ipulua.keras.onnx.import"}
