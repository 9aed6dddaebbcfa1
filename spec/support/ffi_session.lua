-- A LuaJIT program's session with ipulua.ffi, run by spec/api/ffi_spec.lua, one section at a time.
-- Lua 5.1 syntax.
local ipu = require "ipulua.ffi"

local sections = {}

-- COLLECT: a full collection after so many instructions, whatever runs then.
local period = tonumber(os.getenv "COLLECT" or "")
if period then
  local collecting = false
  require "jit".off() -- compiled code calls no hooks
  debug.sethook(function()
    if collecting then return end
    collecting = true
    collectgarbage()
    collecting = false
  end, "", period)
end

local function near(a, b) assert(math.abs(a - b) < 1e-5, a .. " is not near " .. b) end

local function refused(words, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok and message:find(words, 1, true), tostring(message))
  assert(message:find("ffi_session.lua:%d+: "), "no line in: " .. message)
end

function sections.arrays()
  local ffi = require "ffi"
  local function shown(data, options) return tostring(ipu.tensor(data, options)) end
  local three = ffi.new("float[3]", {1, 2, 3})
  assert(shown(three) == "[1. 2. 3.]" and shown(three, {shape = {3, 1}}) == "[[1.]\n [2.]\n [3.]]")
  assert(shown(ffi.new("double[3]", {1, 2, 3})) == "[1. 2. 3.]"
    and shown(ffi.new("double[3]", {1, 2, 3}), "float64") == "[1. 2. 3.]")
  assert(shown(ffi.new("int64_t[2]", {5, -6}), "int32") == "[ 5 -6]")
  assert(shown(ffi.new("int[2][2]", {{1, 2}, {3, 4}}), {shape = {2, 2}}) == "[[1. 2.]\n [3. 4.]]")
  assert(shown(ffi.new("float[?]", 2, {7, 8}), {dtype = "float16"}) == "[7. 8.]")
  assert(shown(ffi.new("bool[2]", {true, false}), "bool") == "[ True False]")
  assert(shown(ffi.new("uint16_t[1]", {0x3c00}), "float16") == "[1.]") -- its own bits
  -- of a pointer the shape is all that is known
  assert(shown(ffi.cast("float *", three), {shape = {2}}) == "[1. 2.]")
  assert(shown({1, 2, 3, 4}, {dtype = "float16", shape = {2, 2}}) == "[[1. 2.]\n [3. 4.]]")
  refused("4 elements can't fill the shape {200, 200}", ipu.tensor, {1, 2, 3, 4},
    {shape = {200, 200}})
  refused("4 elements can't fill the shape {2}", ipu.tensor, {1, 2, 3, 4}, {shape = {2}})
  refused("3 elements can't fill the shape {3000}", ipu.tensor, three, {shape = {3000}})
  refused("must be given", ipu.tensor, ffi.cast("float *", three))
  refused("read from 'double *', got a ctype<float *>", ipu.tensor, ffi.cast("float *", three),
    {dtype = "float64", shape = {3}})
  refused("300 does not fit uint8", ipu.tensor, ffi.new("int[1]", {300}), "uint8")
  refused("expected an array of numbers", ipu.tensor, ffi.new("struct { int a; }"), {shape = {1}})
  refused("its element 1 is 2.5", ipu.zeros, {2.5})
  refused("has 5000 elements, got 3", function() ipu.zeros{5000}:write(three) end)
  assert(tostring(ipu.zeros{3}:write(ffi.new("double[3]", {1, 2, 3}))) == "[1. 2. 3.]")
  assert(tostring(ipu.zeros{3}:write(ipu.tensor{4, 5, 6}:data())) == "[4. 5. 6.]")
end

function sections.json()
  local json = ipu.json
  local list = json.decode '[1, null, {"a": null, "b": [null]}, null]'
  assert(#list == 4 and list[1] == 1 and list[2] == json.null and list[3].a == nil
    and list[3].b[1] == json.null)
  assert(json.encode(list) == '[1,null,{"b":[null]},null]')
  local text = json.decode [["\u00e9\ud83d\ude00\u0000\/\n"]]
  assert(text == "\195\169\240\159\152\128\0/\n")
  assert(json.decode("9007199254740993") == 2 ^ 53 and json.decode("-1.5e3") == -1500
    and json.decode("true") == true and json.decode("null", 7) == 7)
  for _, wrong in ipairs{"nan", "0x10", "01", "+1", "[1,]", "{'a': 1}", "[1] 2", '"\1"', '"\255"',
    ("["):rep(300) .. ("]"):rep(300), ""} do
    refused("JSON: ", json.decode, wrong)
  end
  local own = {}
  own[1] = own
  refused("nested more than 200 deep", json.encode, own)
  local x, y = ipu.tensor{{1, 1, 1}, {1, 1, 1}}, ipu.tensor{{0}, {0}}
  local m =
    ipu.model_from_lua("local k = require 'ipulua'.keras "
      .. "return k.Sequential{k.layers.Dense{1, kernel_initializer = 'ones'}}")
  m:compile{optimizer = {class_name = "SGD", config = {learning_rate = 1e30}}, loss = "mse"}
  local loss = m:fit(x, y, {epochs = 4, batch_size = 2}).loss
  assert(#loss == 4 and loss[1] == 9 and loss[4] ~= loss[4]) -- (3 - 0)^2, then NaN
  local now = m:evaluate(x, y).loss
  assert(now ~= now)
end

function sections.tensors()
  local t = ipu.tensor{{1, 2, 3}, {4, 5, 6}}
  assert(t.dtype == "float32" and #t.shape == 2 and t.shape[2] == 3
    and tostring(t.shape) == "{2, 3}")
  assert(tostring(t) == "[[1. 2. 3.]\n [4. 5. 6.]]")
  assert(t:totable()[2][1] == 4)
  assert(ipu.reduce_sum(t):item() == 21)
  assert(ipu.reduce_sum(t, {axis = 0}):totable()[3] == 9)
  assert(tostring((t + 1) * 2 - t) == "[[3. 4. 5.]\n [6. 7. 8.]]")
  assert(ipu.matmul(t, t, {transpose_b = true}):totable()[1][2] == 32)
  assert(ipu.concat({t, t}, {axis = 0}).shape[1] == 4)
  assert(ipu.nn.relu(-t):totable()[1][1] == 0)
  local values, indices = ipu.top_k(t, {k = 1})
  assert(values:totable()[1][1] == 3 and indices:totable()[1][1] == 2 and indices.dtype == "int32")
  assert(ipu.tensor({1, 0}, {dtype = "bool"}):totable()[1] == true)
  assert(ipu.tensor({1.5, 2}, {dtype = "float16"}):totable()[1] == 1.5)
  -- halves are rounded once: just over the middle of two numbers, and beyond float32's range
  local halves = ipu.tensor({1 + 2 ^ -11 + 2 ^ -40, 1e300}, "float16"):totable()
  assert(halves[1] == 1 + 2 ^ -10 and halves[2] == 65504)
  assert(ipu.tensor({2 ^ 40}, {dtype = "int64"}):totable()[1] == 2 ^ 40)
  assert(t:write{{0, 1, 2}, {3, 4, 5}}:totable()[2][3] == 5)
  refused("inner extents", ipu.matmul, t, t)
  refused("no attribute 'axes'", ipu.reduce_sum, t, {axes = 0})
  refused("no op 'relu'; did you mean 'nn.relu'?", function() return ipu.relu end)
  refused("no op 'matmull'; did you mean 'matmul'?", function() return ipu.matmull end)
  refused("no op 'nn.rleu'; did you mean 'nn.relu'?", function() return ipu.nn.rleu end)
  refused("no op 'Variable'; did you mean 'variable'?", function() return ipu.Variable end)
  refused("models come from ipu.model_from_json", function() return ipu.keras end)
  assert(ipu.ones({2, 2}, {dtype = "int32"}):totable()[2][1] == 1)
  refused("different lengths", ipu.tensor, {{1, 2}, {3}})
  refused("different depths", ipu.tensor, {{1, 2}, 3})
  refused("no dtype 'float99'", function() return ipu.zeros({2}, {dtype = "float99"}) end)
  assert(ipu.tensor({1, 2}, "int32").dtype == "int32")
  local whole = ipu.tensor({1, 2}, "int32")
  refused("0.5 is no int32", function() local x = whole + 0.5 return x end)
  refused("300 does not fit uint8", function()
    local x = ipu.tensor({300, -1}, "uint8")
    return x
  end)
  refused("nan is no int32", function() local x = ipu.tensor({0 / 0}, "int32") return x end)
  refused("write: 2.5 is no int32", function() whole:write{1, 2.5} end)
  refused("float16 has no C type", function() ipu.tensor({1}, "float16"):write{1} end)
  assert(ipu.tensor({0.5, 0}, "bool"):totable()[1] == true)
  refused("no dtype 'int33'", function() return ipu.tensor({1, 2}, "int33") end)
  refused("a tensor has no '1'; t:totable() has its elements", function()
    local x = t[1]
    return x
  end)
  refused("a tensor has no 'reduce_sum'; it is a function: ipu.reduce_sum(x)", function()
    local x = t:reduce_sum()
    return x
  end)
  refused("it is a function: ipu.nn.relu(x)", function() local x = t.relu return x end)
  refused("a tensor has no 'shap'", function() local x = t.shap return x end)
  refused("item is a method; it is called with a colon", function() return t.item() end)
  refused("read is a method; it is called with a colon", function()
    return ipu.variable(1).read()
  end)
  refused("compared with ipu.less(a, b)", function() local x = t < t return x end)
  refused("v:read() gives its tensor", function() local x = ipu.variable(1):item() return x end)
  refused("zeros: 'shape' must be a table, got a number", ipu.zeros, 3)
  refused("save: 'tensors' must be a table, got none", ipu.save, "x.npz")
  refused("save: expected tensors by name", ipu.save, "x.npz", {1, 2})
  refused("load: 'path' must be a string, got none", ipu.load)
  refused("func: 'f' must be a function, got a number", ipu.func, 5)
  refused("set_threads: 'n' must be a number, got a string", ipu.set_threads, "x")
  refused("run_lua: 'code' must be a string, got none", ipu.run_lua)
  refused("load_model: 'path' must be a string, got none", ipu.load_model)
  refused("not known while a function is traced", function()
    ipu.func(function(x) local y = x:item() return y end)(t)
  end)
  local count = 0
  for _ in pairs(ipu.ops()) do count = count + 1 end
  assert(count > 100)
end

-- Values that Lua's numbers and C's strings don't hold are taken and given as they are, or refused.
function sections.limits()
  local ffi = require "ffi"
  local odd = 9007199254740993LL -- 2^53 + 1
  local t = ipu.tensor(ffi.new("uint64_t[2]", {odd, 1}), "int64")
  assert(tostring(t) == "[9007199254740993                1]" and t:data()[0] == odd)
  refused("18446744073709551615 does not fit int64", ipu.tensor, ffi.new("uint64_t[1]", -1ULL),
    "int64")
  assert(ipu.zeros({1}, "int64"):write(ffi.new("uint64_t[1]", odd)):data()[0] == odd)
  refused("item: 9007199254740993 is between two numbers", function()
    ipu.tensor(ffi.new("int64_t[1]", odd), "int64"):item()
  end)
  refused("totable: -9007199254740993 is between", function()
    ipu.tensor(ffi.new("int64_t[1]", -odd), "int64"):totable()
  end)
  local least = ffi.new("int64_t[2]", {-9223372036854775807LL - 1, 2 ^ 53})
  assert(ipu.tensor(least, "int64"):totable()[1] == -2 ^ 63)
  -- an attribute has all its digits: seeds that differ in the last one draw other numbers
  local function drawn(seed) return tostring(ipu.random.uniform{shape = {8}, seed = seed}) end
  assert(drawn(2 ^ 60) == drawn(1152921504606846976LL) and drawn(2 ^ 60) ~= drawn(2 ^ 60 + 1LL))
  -- the pointer is all that is left of its tensor
  local function pointer() return ipu.tensor{4, 5, 6}:data() end
  local data = pointer()
  for _ = 1, 3 do collectgarbage() end
  local others = {} -- where that has been freed
  for i = 1, 20 do others[i] = ipu.tensor{7, 8, 9} end
  assert(data[0] == 4 and data[2] == 6 and #others == 20)
  -- no numbers
  refused("got a ctype<float *[2]>", ipu.tensor, ffi.new("float *[2]"), {shape = {2}})
  refused("got a ctype<float **>", ipu.tensor, ffi.cast("float **", ffi.new("float *[2]")),
    {shape = {2}})
  refused("got a ctype<complex [2]>", ipu.tensor, ffi.new("complex[2]"))
  refused("the pointer is NULL", ipu.tensor, ffi.cast("float *", nil), {shape = {2}})
  -- lists
  refused("the list has a hole", ipu.tensor, {1, nil, 3})
  refused("the list has a hole", ipu.zeros, {2, nil, 3})
  refused("the list has a name in it, 'dtype'", ipu.tensor, {1, 2, dtype = "int32"})
  refused("concat: the list has a hole", ipu.concat, {t, nil, t}, {axis = 0})
  refused("list with a hole", ipu.reduce_sum, t, {axis = {0, nil, 1}})
  refused("its element 1 is 1e+30", ipu.zeros, {1e30})
  -- strings and options of another type
  refused("'name' has a NUL in it", ipu.variable, 1, {name = "a\0b"})
  refused("'dtype' has a NUL in it", ipu.zeros, {1}, "int32\0x")
  refused("no op 'neg", function() return ipu["neg\0x"] end)
  refused("'description' has a NUL in it", ipu.model_from_json, "{}\0")
  refused("run: the text has a NUL in it", ipu.run_lua, "return 'a\\0b'")
  refused("variable: 'name' must be a string, got a number", ipu.variable, 1, {name = 5})
  refused("tensor: 'shape' must be a table, got a number", ipu.tensor, {1}, {shape = 1})
end

-- Arguments that were once dropped without an error. Gradients by what a function captures:
-- tensors, and variables whatever is assigned meanwhile. Of w = 2, c = 7 and x = 5.
function sections.captures()
  local w, c, x = ipu.variable(2), ipu.tensor(7), ipu.tensor(5)
  local function by(f, ...)
    local xs = {...}
    local values = {ipu.func(function(a)
      local list = ipu.gradients(f(a), xs)
      for i = 1, #xs do list[i] = list[i] or -1 end
      if #xs == 1 then return list[1] end
      return list[1], list[2]
    end)(x)}
    for i, v in ipairs(values) do values[i] = tostring(v:item()) end
    return table.concat(values, " ")
  end
  assert(by(function(a) return a * c + c end, c, w) == "6 -1")
  assert(by(function(a) return a * (c * c) end, c) == "70") -- computed of it alone
  assert(by(function(a) return a * w * w end, w, w) == "20 20")
  local function assigning(a)
    local y = a * w
    w:assign(w * 3)
    return y + w * a * a
  end
  assert(by(assigning, w, c) == "30 -1" and w:read():item() == 6)
  assert(by(function(a) -- written to meanwhile, it is another one
    local y = a * c
    c:write{8}
    return y + a * a * c
  end, c) == "25")
  assert(c:item() == 8)
  -- a value of a function that is over, whatever lies where its builder was
  for _ = 1, 20 do
    local leaked
    ipu.func(function(a) leaked = a * 2 return leaked end)(x)
    local stale = ipu.func(function(a) return a + leaked end)
    refused("used outside the function that made it", stale, x)
  end
end

-- More tensors than 64, as operands and as results.
function sections.counts()
  local list = {}
  for i = 1, 300 do list[i] = ipu.tensor{i, -i} end
  local all = ipu.stack(list)
  assert(all.shape[1] == 300 and ipu.reduce_sum(all):item() == 0)
  local rows = {ipu.unstack(all)}
  assert(#rows == 300 and tostring(rows[300]) == "[ 300. -300.]")
  local results = {ipu.func(function(a) return ipu.unstack(a * 2) end)(all)}
  assert(#results == 300 and tostring(results[299]) == "[ 598. -598.]")
end

function sections.dropped()
  local t, v = ipu.tensor{1, 2, 3}, ipu.variable({5}, {name = "v"})
  refused("got a variable; v:read() gives its tensor", ipu.tensor, v)
  refused("got a tensor; ipu.stack takes a list", ipu.tensor, {t, t})
  refused("got a table with names", ipu.tensor, {a = 1})
  refused("no option 'dtpye'; did you mean 'dtype'?", ipu.tensor, {1}, {dtpye = "int32"})
  refused("no option 'shape'", ipu.zeros, {1}, {shape = {1}})
  refused("no option 'nmae'", ipu.variable, {1}, {nmae = "v"})
  assert(tostring(ipu.tensor(t, {dtype = "int32", shape = {3, 1}})) == "[[1]\n [2]\n [3]]")
  assert(tostring(ipu.ones({2}, "int32")) == "[1 1]")
  refused("layer_norm: argument 2 is nil, but argument 3 is given", ipu.nn.layer_norm,
    ipu.tensor{{1, 2, 4}}, nil, ipu.tensor{10, 20, 30})
  refused("argument 1 is nil", ipu.sub, nil, t, t)
  assert(tostring(ipu.sub(t, t, nil)) == "[0. 0. 0.]")
  refused("its result 1 is a table", ipu.func(function(x) return {x} end), t)
  refused("its result 2 is a nil", ipu.func(function(x) return x, nil, x end), t)
  refused("not traced inside one another", ipu.func(function(x)
    return ipu.func(function(y) return y end)(x)
  end), t)
  refused("JSON has no number inf", ipu.clip_by_value, t, {min = 0, max = 1 / 0})
  refused("no list with a name in it, 'a'", ipu.pad, t, {paddings = {1, 1, a = 3}})
  for _, n in ipairs{1.5, 1 / 0, 0 / 0} do
    refused("must be an integer", ipu.set_seed, n)
    refused("must be an integer", ipu.set_threads, n)
  end
  ipu.set_seed(-1)
  refused("has a NUL in it", ipu.run_lua, "return 1 \0 + 5")
  refused("has a NUL in it", ipu.load, "a.npz\0.npy")
  refused("has a NUL in it", ipu.save, "a.npz", {["a\0b"] = t})
  local path = os.tmpname()
  refused("holds tensors by name", ipu.save, path .. ".safetensors", t)
  ipu.save(path .. ".safetensors", {[""] = t, b = v:read()})
  local file = ipu.load(path .. ".safetensors")
  assert(tostring(file[""]) == "[1. 2. 3.]" and file.b:item() == 5)
  ipu.save(path .. ".npy", t)
  assert(tostring(ipu.load(path .. ".npy")) == "[1. 2. 3.]")
  os.remove(path .. ".safetensors")
  os.remove(path .. ".npy")
  os.remove(path)
end

-- A coroutine traces for itself.
function sections.coroutines()
  local t = ipu.tensor{1, 2, 3}
  local function tracing()
    return coroutine.wrap(function()
      return ipu.func(function(x)
        coroutine.yield()
        return x * 2
      end)(t)
    end)
  end
  local resume = tracing()
  resume()
  assert(ipu.add(t, t):totable()[3] == 6)
  assert(ipu.func(function(x) return x + 1 end)(t):totable()[3] == 4)
  assert(resume():totable()[3] == 6)
  for _ = 1, 50 do tracing()() end
  collectgarbage()
  collectgarbage()
  assert(ipu.add(t, t):totable()[3] == 6)
  local sum = ipu.func(function(x) -- values of the function that resumes it
    local s = x
    for v in coroutine.wrap(function() for i = 1,
      3 do coroutine.yield(x * i) end end) do s = s + v end
    return s
  end)
  assert(sum(t):totable()[3] == 21)
end

function sections.functions()
  local w = ipu.variable(2.0, {name = "w"})
  local calls = 0
  local step = ipu.func(function(x)
    calls = calls + 1
    local loss = ipu.reduce_sum(x * w)
    local gradients = ipu.gradients(loss, {w, x})
    w:assign(w + 1)
    return loss, gradients[1], gradients[2]
  end)
  for k = 0, 2 do
    local loss, dw, dx = step(ipu.tensor{1, 2, 4})
    assert(loss:item() == 7 * (2 + k) and dw:item() == 7 and dx:totable()[1] == 2 + k)
  end
  assert(calls == 1)
  step(ipu.tensor{1, 2})
  assert(calls == 2 and w:read():item() == 6)
  w:assign(0)
  assert(w:read():item() == 0)
  refused("outside the function", function()
    local kept
    ipu.func(function(x) kept = x; return x end)(ipu.tensor{1})
    return kept + 1
  end)
  assert(tostring(w) == "0.0", tostring(w))
  assert(tostring(step):find("^<Function .*ffi_session.lua:%d+, traced for 2 signatures>$"),
    tostring(step))
  assert(tostring(ipu):find("^<module ipulua.ffi %d"), tostring(ipu))
  assert(tostring(ipu.nn):find("^<module ipulua.ffi: nn;"), tostring(ipu.nn))
  ipu.func(function(x)
    assert(tostring(x) == "<value of a traced function: float32[2]>", tostring(x))
    return x
  end)(ipu.tensor{1, 2})
  local ok, message = pcall(ipu.func(function() error("mine", 0) end), ipu.tensor{1})
  assert(not ok and message == "mine")
  assert(ipu.exp(ipu.tensor{0}):item() == 1) -- tracing has ended
end

local description = {class_name = "Sequential", config = {name = "line", layers = {
  {class_name = "Dense", config = {units = 1, name = "dense"}},
}}}

function sections.models()
  ipu.set_seed(3)
  local model = ipu.model_from_json(description)
  local x, y = ipu.tensor{{1}, {2}, {3}, {4}}, ipu.tensor{{3}, {5}, {7}, {9}}
  model:build{4, 1}
  model:compile{optimizer = {class_name = "SGD", config = {learning_rate = 0.05}}, loss = "mse",
    metrics = {"mae"}}
  assert(tostring(model) == "<model 'line', 1 layer; m:summary() shows them>", tostring(model))
  refused("a model has no 'foo'", function() model.foo() end)
  refused("a model has no 'fitt'; did you mean 'fit'?", function() model:fitt() end)
  refused("fit is a method; it is called with a colon, as in model:fit(...)", function()
    return model.fit{x}
  end)
  refused("expected a tensor or a list of tensors, got a number", function() model:predict(5) end)
  refused("save: 'path' must be a string, got none", function() model:save() end)
  local history = model:fit(x, y, {epochs = 300, batch_size = 4})
  assert(#history.loss == 300 and history.loss[300] < 1e-2 and history.loss[300] < history.loss[1])
  assert(#model:get_weights() == 2)
  local logs = model:evaluate(x, y)
  assert(logs.loss and logs.mae)
  assert(model:train_on_batch(x, y).loss)
  local p = model:predict(x)
  assert(p.shape[1] == 4 and p.shape[2] == 1)
  for i = 1, 4 do assert(math.abs(p:totable()[i][1] - (2 * i + 1)) < 0.2) end
  local path = os.tmpname()
  model:save_weights(path .. ".safetensors")
  local stored = ipu.load(path .. ".safetensors")
  near(stored["dense/kernel"]:item(), model:get_weights()[1]:item())
  local other = ipu.model_from_json(model:to_json())
  other:build{4, 1}
  other:load_weights(path .. ".safetensors")
  near(other:predict(x):totable()[4][1], p:totable()[4][1])
  model:save(path .. ".safetensors")
  near(ipu.load_model(path .. ".safetensors"):predict(x):totable()[4][1], p:totable()[4][1])
  os.remove(path)
  os.remove(path .. ".safetensors")
  assert(model:summary():find("Dense"))
  local price = model:estimate{batch_size = 4, target = "gc200"}
  assert(price.target:lower() == "gc200" and price.seconds > 0 and price.fits == true)
  refused("no target 'nosuch'", model.estimate, model, {target = "nosuch"})
  assert(ipu.run_lua("return _VERSION") == "Lua 5.4")
  refused("unknown optimizer 'sdg'", model.compile, model, {optimizer = "sdg"})
  refused("class_name", ipu.model_from_json, {})
end

local function resident() -- KiB
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^VmRSS:%s*(%d+)")
    if kib then return tonumber(kib) end
  end
end

-- 10,000 times everything that C gives out; the process must not grow.
function sections.leaks()
  local model = ipu.model_from_json(description)
  local x = ipu.tensor{{1}, {2}, {3}, {4}}
  model:build{4, 1}
  model:compile{optimizer = "sgd", loss = "mse"}
  local function round(i)
    local t = ipu.zeros{64, 64}
    local sum = ipu.reduce_sum(t + i)
    assert(sum:item() == 4096 * i)
    pcall(ipu.matmul, t, x)
    if i % 100 == 0 then
      local f = ipu.func(function(v) return v * i end)
      assert(f(x):totable()[2][1] == 2 * i)
      local v = ipu.variable(t)
      v:assign(t)
      ipu.model_from_json(description)
    end
    if i % 10 == 0 then model:train_on_batch(x, x) end
    if i % 50 == 0 then model:predict(x) end
  end
  for i = 1, 2000 do round(i) end
  collectgarbage()
  local before = resident()
  for i = 1, 10000 do round(i) end
  collectgarbage()
  local grown = resident() - before
  print("grown by " .. grown .. " KiB")
  assert(grown < 6 * 1024, "grown by " .. grown .. " KiB")
end

-- Finalisers in any order, also at the end of the state.
function sections.ending()
  local model = ipu.model_from_json(description)
  local f = ipu.func(function(v) return v + 1 end)
  f(ipu.tensor{1})
  KEPT = {model, f, ipu.variable(1.0), ipu.tensor{1}} -- luacheck: ignore
end

-- The declarations twice in one state; and a library of another version is refused.
function sections.loading()
  package.loaded["ipulua.ffi"] = nil
  local again = require "ipulua.ffi"
  assert(again ~= ipu and again.tensor{1}:item() == 1)
end

sections[arg[1]]()
print "done"
