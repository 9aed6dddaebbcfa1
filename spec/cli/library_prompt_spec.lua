-- The prompt with the library: help, results, Ctrl-C in the midst of work, the stock modules, the
-- time until it is there.
local command = require "spec.support.command"
local core = require "ipulua.core"
local terminal = require "spec.support.terminal"

local CTRL_C, CTRL_D = "\3", "\4"

local function typed(text)
  local r = command.run{command.ipulua, "-i", "-e", "_PROMPT, _PROMPT2 = '', ''", stdin = text,
    env = {NO_COLOR = "1"}}
  assert.equal(0, r.status)
  return (r.out:gsub("^.-\n.-\n", "", 1)), r.err
end

describe("help", function()
  it("explains an op by its row", function()
    local out = typed("?ipu.matmul\n")
    assert.truthy(out:find("ipu.matmul(a, b, {transpose_a, transpose_b})\nThe product of matrices; "
      .. "leading extents broadcast.\n", 1, true))
    assert.truthy(out:find("  transpose_a  boolean, default false: a's last two axes are swapped\n",
      1, true))
    assert.equal(out, (typed("help('matmul')\n")))
    assert.equal(out, (typed("help('ipu.matmul')\n")))
    assert.equal(out, (typed("help(ipu.matmul)\n")))
  end)
  it("explains an op that a script has registered", function()
    local given = "op = ipu.register_op{'triple', call = function(x) return x * 3 end, gradient = "
      .. "function(dy) return dy * 3 end}\n"
    assert.equal("ipu.triple: an op that was registered by register_op, stdin:1\n  with a gradient "
      .. "of its own\n",
      (typed(given .. "help(op)\n"):gsub("\n$", "")))
  end)
  it("explains an op's choices, several results and missing gradients", function()
    assert.truthy(typed("?ipu.nn.conv2d\n"):find('  padding    VALID | SAME, default "VALID": ', 1,
      true))
    assert.truthy(typed("?ipu.top_k\n"):find("gives 2 results", 1, true))
    assert.truthy(typed("?ipu.ones\n"):find("  gives tensor\n", 1, true))
    assert.truthy(typed("?ipu.Session\n"):find('  target  string, default ""', 1, true))
    assert.truthy(typed("?keras.preprocessing.text.Tokenizer\n"):find('string, default " "\n', 1,
      true))
    assert.truthy(typed("?ipu.Variable\n"):find("  gives variable\n", 1, true))
    assert.truthy(typed("?ipu.reduce_sum\n"):find("  axis      integer or list: ", 1, true))
    assert.truthy(typed("?ipu.func\n"):find("  source: tf.function(jit_compile=True) of TensorFlow "
      .. "2.6\n", 1, true))
    assert.truthy(typed("?ipu.normalise_image\n"):find(
      "  source: image_ops.normalise_image of Graphcore's TensorFlow 2.6\n", 1, true))
    assert.truthy(typed("?ipu.argmax\n"):find("Gradients stop here.", 1, true))
    assert.truthy(typed("?ipu.concat\n"):find("ipu.concat({tensors, ...}, axis)\n", 1, true))
    assert.truthy(typed("?ipu.split\n"):find("ipu.split(x, count_or_sizes, {axis})\n", 1, true))
    local random = typed("?ipu.random.truncated_normal\n")
    assert.truthy(random:find("ipu.random.truncated_normal(shape, {mean, stddev, dtype, seed})\n",
      1, true))
    assert.is_nil(random:find("Gradients", 1, true))
  end)
  it("explains a class by its arguments, and a function by the words above it", function()
    local out = typed("?keras.layers.Dense\n")
    assert.truthy(out:find("activation(x · kernel + bias) along the last axis.\n", 1, true))
    assert.truthy(out:find("\n  units +integer ≥ 1, required\n"))
    assert.truthy(out:find("\n  kernel_initializer +initializer, default glorot_uniform\n"))
    -- not Model's
    assert.truthy(typed("?keras.Sequential\n"):find("^Sequential{layers, name, .*\n  layers +list, "
      .. "default {}\n"))
    assert.equal("ipu.json.encode(value, options)\n",
      (typed("?ipu.json.encode\n"):match("^[^\n]*\n")))
    local placeholder = typed("?ipu.placeholder\n")
    assert.truthy(placeholder:find("ipu.placeholder{dtype, shape, name}\nA value that a session is "
      .. "fed", 1, true))
    assert.truthy(placeholder:find("\n  dtype  dtype, required\n", 1, true))
  end)
  it("explains methods, tensors, variables, enumerations and Keras' functions", function()
    local op = typed("?ipu.reduce_sum\n")
    for _, asked in ipairs{"x.reduce_sum", "x:reduce_sum"} do
      assert.equal(op, (typed("x = ipu.ones{2, 3}\n?" .. asked .. "\n")))
    end
    assert.truthy(typed("x = ipu.ones{2, 3}\n?x\n"):find("x: a tensor, float32[2, 3]\n", 1, true))
    assert.truthy(typed("v = ipu.Variable(1)\n?v\n"):find("v: a variable, float32[]\n", 1, true))
    assert.truthy(typed("?ipu.PipelineSchedule\n"):find("one of Grouped, Interleaved,", 1, true))
    assert.truthy(typed("?keras.losses.mean_squared_error\n"):find(
      "keras.losses.mean_squared_error(y_true, y_pred)\nmean(", 1, true))
    assert.truthy(typed("m = keras.Sequential{}\n?m:fit\n"):find("m:fit{x, y,", 1, true))
    assert.truthy(typed("help(ipu.func)\n"):find("ipu.func{f, name, max_programs}\n", 1, true))
  end)
  it("explains the methods of tensors and variables that are no ops", function()
    local help, ipu = require "ipulua.tools.help", require "ipulua"
    for _, value in ipairs{ipu.ones{2}, ipu.Variable(1)} do
      local shown = table.concat(help.lines(value), "\n")
      for name, f in pairs(getmetatable(value).methods) do
        assert.is_true(#(help.lines(f) or {}) >= 2, name)
        if not help.op_name(f) then
          assert.matches("methods:[^\n]* " .. name .. "%f[^%w_]", shown)
        end
      end
    end
    assert.equal("v:assign_add(value)\nAdds to it.\n  gives tensor\n",
      (typed("v = ipu.Variable(1)\n?v:assign_add\n"):match("^.-\n  gives tensor\n")))
    -- symbolic
    assert.falsy(
      typed("f = ipu.func(function(x) help(x) return x end)\nlocal _ = f(ipu.ones{2})\n"):find(
        "item", 1, true))
  end)
  it("explains what metrics do, and how a class is derived", function()
    assert.matches("\n  methods: add_weight reset_state reset_states result update_state\n",
      typed("?keras.metrics.Mean\n"))
    local out =
      typed("m = keras.metrics.Mean()\n?m:update_state\n?m:result\n?keras.layers.Layer:extend\n")
    for _,
      text in ipairs{"m:update_state(self, values, sample_weight)\nTakes a batch of values in;",
        "m:result(self)\nThe value so far.\n",
      "keras.layers.Layer:extend(base, name)\nA derived class: "} do
      assert.truthy(out:find(text, 1, true), text)
    end
    local keras, help, class = require "ipulua".keras, require "ipulua.tools.help",
      require "ipulua.base.class"
    for name, c in pairs(keras.metrics) do
      for _,
        method in ipairs(class.is_class(c) and {"update_state", "result", "reset_state"} or {}) do
        assert.is_true(#help.lines(c[method]) >= 2, name .. ":" .. method)
      end
    end
  end)
  it("says shapes, errors and sources, in lines that fit a terminal", function()
    local out =
      typed(
        "?ipu.gradients\n?keras.optimizers.Adam\n?ipu\n?keras.layers\n?keras.Model.fit\n"
        .. "?ipu.pipeline\n")
    for _, text in ipairs{"  shapes: ys any, summed", "  errors: outside of a traced function",
      "  source: arXiv:1412.6980"} do
      assert.truthy(out:find(text, 1, true), text)
    end
    for line in out:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 80, line) end
  end)
  it("lists a module's public names", function()
    assert.truthy(
      typed("?ipu.data\n"):find("^ipu.data: AUTOTUNE BufferDataset Dataset from_cifar from_csv"))
    assert.falsy(typed("?ipu.train\n"):find("is_optimizer"))
    assert.truthy(typed("?ipu\n"):find("\n  functions: Variable arange", 1, true))
    assert.equal("<module keras.layers; help(keras.layers) lists its names>\n\n",
      (typed("keras.layers\n")))
  end)
  it("names the line of an expression's error", function()
    local _, err = typed("ipu.tensor{{1, 2}, {3}}\n")
    assert.equal("stdin:1: tensor is ragged: its lists have different lengths\n", err)
  end)
  it("explains every public op", function()
    local help = require "ipulua.tools.help"
    for name in pairs(core.ops) do
      if not core.describe_op(name).internal then
        assert.is_true(#help.op(name) >= 2 and #help.op(name)[2] > 2, name)
      end
    end
  end)
end)

describe("the prompt", function()
  it("shows tensors with dtype, and remembers results", function()
    local matrix, row = "tensor([[1., 2.],\n        [3., 4.]], dtype=float32)\n",
      "tensor([2., 4.], dtype=float32)\n"
    assert.equal(matrix .. row .. "3.0\n" .. row .. "\n",
      (typed("ipu.tensor{{1, 2}, {3, 4}}\n_[1] * 2\n_1[2][1]:item()\n_1\n")))
  end)
  it("shows the edges of a large tensor, and a variable with its name", function()
    assert.equal("tensor([   0,    1,    2, ..., 4997, 4998, 4999],\n       shape=[5000], "
      .. "dtype=int32)\n",
      (typed("ipu.arange(5000)\n"):gsub("\n\n$", "\n")))
    assert.equal("tensor([[    0,     1,     2, ...,   197,   198,   199],\n"
      .. "        [  200,   201,   202, ...,   397,   398,   399],\n        [  400,   401,   402, "
      .. "...,   597,   598,   599],\n        ...,\n"
      .. "        [39400, 39401, 39402, ..., 39597, 39598, 39599],\n        [39600, 39601, 39602, "
      .. "..., 39797, 39798, 39799],\n"
      .. "        [39800, 39801, 39802, ..., 39997, 39998, 39999]],\n       shape=[200, 200], "
      .. "dtype=int32)\n"
      .. "tensor([], shape=[3, 0], dtype=float32)\n"
      .. "variable([[1., 2.],\n          [3., 4.]], dtype=float32, name='w')\n\n",
      (typed("ipu.reshape(ipu.arange(40000), {200, 200})\nipu.zeros{3, 0}\nipu.Variable({{1, 2}, "
        .. "{3, 4}}, {name = 'w'})\n")))
  end)
  it("shows functions, classes and modules by name", function()
    assert.equal("<Function double, traced for 1 signature>\n<class Dense>\n\n",
      (typed("f = ipu.func(function(x) return x * 2 end, {name = 'double'}) local _ = "
        .. "f(ipu.ones{2})\nf\nkeras.layers.Dense\n")))
    assert.matches("^<module ipulua %d.*help%(ipu%)", (typed("ipu\n")))
    for _, name in ipairs{"ipu.matmul", "ipu.nn.relu", "ipu.func", "keras.Input",
      "keras.losses.huber"} do
      assert.equal(("<function %s; help(%s) explains it>\n\n"):format(name, name),
        (typed(name .. "\n")))
    end
    assert.matches("\nfunction: ", (typed("ipu.zeros\nprint\n")))
  end)
  it(
    "names what was made of a function by the function, in one spelling, or by its place",
    function()
    for call, name in pairs{["ipu.matmul"] = "ipu.matmul",
      ["keras.losses.mse"] = "keras.losses.mean_squared_error",
      ["keras.layers.Dense{1, name = 'last'}"] = "last",
      ["keras.losses.MeanSquaredError()"] = "mean_squared_error",
      ["math.abs"] = "[C]", ["function(x) return x end"] = "stdin:1"} do
      assert.equal(("<Function %s, traced for 0 signatures>\n\n"):format(name),
        (typed(("ipu.func(%s)\n"):format(call))))
    end
  end)
  it("names the line of an error, shortly", function()
    local _, err = typed("ipu.matmul(ipu.ones{2, 3}, ipu.ones{2, 3})\n")
    assert.equal("stdin:1: matmul: [2, 3] times [2, 3]: inner extents 3 and 2 differ\n", err)
  end)
  it("completes attributes and arguments by their rows", function()
    for given, wanted in pairs{["ipu.matmul(1, 1, {transpose_b"] = "= ",
      ["keras.layers.Dense{kernel_con"] = "straint = ",
      ["ipu.zeros({1}, {dty"] = "pe = ", ["keras.Model.fit{validation_sp"] = "lit = "} do
      local shown, status = terminal({{expect = "> "}, {send = given .. "\t"}, {expect = wanted},
        {send = CTRL_C},
        {expect = "> "}, {send = CTRL_D}})
      assert.equal(0, status, shown)
    end
  end)

  it("completes fields and methods of objects, options of configurations", function()
    local steps = {{expect = "> "}}
    for _, line in ipairs{"x = ipu.ones{2, 3}",
      "m = keras.Sequential{keras.layers.Dense{3, input_shape = {2}}}", "ds = ipu.data.range(4)",
      "cfg = ipu.IPUConfig()", "v = ipu.Variable(1)"} do
      steps[#steps + 1] = {send = line .. "\n"}
      steps[#steps + 1] = {expect = "> "}
    end
    for given, wanted in pairs{["x.dt"] = "ype", ["x:reduce_var"] = "iance", ["m:ev"] = "aluate",
      ["m:fit{ep"] = "ochs = ",
      ["m.trainable_v"] = "ariables", ["ds:interl"] = "eave", ["cfg.auto_s"] = "elect_ipus",
      ["cfg.ipu_model.ti"] = "les_per_ipu",
      ["v.na"] = "me", ["m.layers[1].ker"] = "nel", ["ipu.data.from_ge"] = "nerator",
      ["ipu.PipelineSchedule.Seq"] = "uential"} do
      steps[#steps + 1] = {send = given .. "\t"}
      steps[#steps + 1] = {expect = wanted}
      steps[#steps + 1] = {send = CTRL_C}
      steps[#steps + 1] = {expect = "> "}
    end
    steps[#steps + 1] = {send = CTRL_D}
    local shown, status = terminal(steps)
    assert.equal(0, status, shown)
  end)
  it("does not offer what the library keeps for itself", function()
    local help = require "ipulua.tools.help"
    local names = {}
    local model = require "ipulua".keras.Sequential{}
    for _, name in ipairs(help.members(model, true)) do names[name] = true end
    assert.is_true(names.fit and names.summary and names.get_weights)
    assert.is_nil(names.discard_programs or names.place_of or names.in_compute_dtype)
  end)
  it(
    "offers of an object what help() says of it, and nothing of what it keeps for itself",
    function()
    local infeed <const> = "ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{1}))"
    for object, case in pairs{[infeed .. ":"] = {"initializer", "dequeue_in_loop", "extend"},
      ["ipu.func(print):"] = {"signatures", "concrete", "extend"},
      ["ipu.GradientTape():"] = {"gradient", "leave", "is_watched"},
      ["keras.optimizers.SGD()."] = {"learning_rate", "_hyper", "_slots"}} do
      local name, rest = object:match("^(.*)([.:])$")
      local shown, status = terminal{{expect = "> "}, {send = "object = " .. name .. "\n"},
        {expect = "> "}, {send = "object" .. rest .. "\t\t"},
        {expect = case[1]}, {send = CTRL_C}, {expect = "> "}, {idle = ""}, {send = CTRL_D}}
      assert.equal(0, status, shown)
      local offered = shown:match("object" .. rest .. ".*$"):gsub("object = [^\n]*", "")
      for i = 2, 3 do assert.falsy(offered:find(case[i], 1, true), offered) end
    end
  end)
  it("offers of a module what is documented of it, and nothing else", function()
    for module, case in pairs{["ipu.loops"] = {"while_loop", "innermost"},
      ["keras.losses"] = {"squared_hinge", "_aliases"},
      ["ipu.json"] = {"encode", "is_array"},
      ["ipu.train"] = {"MomentumOptimizer", "read_apply_arguments"},
      ["ipu.data"] = {"from_tensors", "IPUInfeedQueue"}} do
      local shown, status = terminal{{expect = "> "}, {send = module .. ".\t\t"},
        -- the terminal is set anew
        {expect = case[1]}, {send = CTRL_C}, {expect = "^C\r\n> "}, {idle = ""}, {send = CTRL_D}}
      assert.equal(0, status, shown)
      assert.falsy(shown:find(case[2], 1, true), shown)
    end
  end)
  it("lists within a narrow window", function()
    local shown = terminal{{expect = "> "}, {size = "20 40"}, {signal = "WINCH"}, {idle = ""},
      {send = "ipu.reduce_\t\t"},
      {expect = "reduce_variance"}, {send = CTRL_C}, {expect = "^C\r\n> "},
      {send = "{alpha = 'aaaaaaaaaa', beta = 'bbbbbbbbbb', gamma = 'c'}\n"}, {expect = "> "},
      {send = CTRL_D}}
    for line in shown:gmatch("\r\n([^\r\n]*)") do
      if line:find("^ ") or line:find("^reduce_") then assert.is_true(#line <= 40, line) end
    end
    assert.truthy(shown:find("{\r\n  alpha = ", 1, true), shown)
  end)

  -- Each: what is begun, and what holds afterwards.
  local works <const> = {
    {"a long op", "a = ipu.ones{6000, 6000} print('go') b = ipu.matmul(a, a) print('too late')",
      "a[1][1]:item()", "1.0"},
    {"a long op in a function", "a = ipu.ones{6000, 6000} f = ipu.func(function(a) return "
      .. "ipu.matmul(a, a) + 1 end) print('go') "
      .. "b = f(a) print('too late')", "b == nil and a[1][1]:item()", "1.0"},
    {"a function of many ops", "a = ipu.ones{1500, 1500} f = ipu.func(function(a) b = a for _ = 1, "
      .. "200 do b = ipu.tanh(ipu.matmul(b, a)) end "
      .. "return b end) print('go') c = f(a) print('too late')",
      "c == nil and f(ipu.ones{2, 2})[1][1]:item() > 0.9", "true"},
    {"a loop of ops", "a = ipu.ones{300, 300} print('go') while true do b = ipu.matmul(a, a) end",
      "a[1][1]:item()", "1.0"},
    {"a loop in a function",
      [[v = ipu.Variable(0.0) f = ipu.func(function() ]]
      .. [[for i in ipu.range(2000000000) do v:assign_add(1.0) end end) ]]
      .. "print('go') f()", "v:item() > 0", "true"},
    {"fit",
      [[L = keras.layers m = keras.Sequential{L.Dense{4}} ]]
      .. [[m:compile{optimizer = "sgd", loss = "mse"} x = ipu.ones{320, 4} ]]
      .. [[print('go') h = m:fit{x = x, y = x, epochs = 1000000, batch_size = 32, verbose = 0}]],
      "m:count_params()", "20"},
  }
  works[#works + 1] = {"a dataset's map in Lua",
    "n = 0 ds = ipu.data.range(10):map(function(i) n = n + 1 "
    .. "if n == 2 then print('go') " .. command.endless
    .. " end return i end, {eager = true}) for _ in ds:iter() do end print('too late')", "n", "2"}
  works[#works + 1] = {"an endless dataset",
    "n = 0 print('go') for _ in ipu.data.range(10):repeat_n():iter() do n = n + 1 end print('too "
    .. "late')",
    "n > 100", "true"}
  for _, work in ipairs(works) do
    it("comes back from " .. work[1] .. " on Ctrl-C, with everything in place", function()
      local shown, status = terminal{{expect = "> "}, {send = work[2] .. "\n"},
        {expect = "\r\ngo\r\n"}, {busy = ""}, {send = CTRL_C},
        {expect = "> "}, {send = work[3] .. "\n"}, {expect = "\r\n" .. work[4] .. "\r\n> "},
        {send = CTRL_D}}
      assert.equal(0, status, shown)
      assert.falsy(shown:find("\ntoo late"))
      if work[1] ~= "fit" then
        assert.truthy(shown:find("\r\n%^Cstdin:1: [^\r\n]*interrupted!\r\n"), shown)
      end
    end)
  end

  it("is there at once: Keras is loaded when it is first used", function()
    local list = "local _ = ipu.zeros{1} for name in pairs(package.loaded) do print(name) end\n"
    local got = command.run{command.ipulua, "-i", stdin = list}.out
    assert.truthy(got:find("ipulua.core", 1, true), got)
    assert.falsy(got:find("ipulua.keras", 1, true), got)
    -- files read before the first op: what start-up costs
    assert.is_true(select(2, got:gsub("ipulua[%w_.]*\n", "")) <= 45, got)
  end)
end)

describe("stock modules of Lua 5.4", function()
  local cases <const> = {
    lfs = "print(lfs.attributes('/', 'mode'))", cjson = "print(cjson.encode{1, 2})",
    socket = "print(socket.gettime() > 0)",
  }
  local wanted <const> = {lfs = "directory\n", cjson = "[1,2]\n", socket = "true\n"}
  for name, code in pairs(cases) do
    it(name .. " loads, beside ipulua", function()
      local r = command.run{command.ipulua, "-e",
        ("local %s = require '%s' require 'ipulua' "):format(name, name) .. code}
      assert.equal(wanted[name], r.out, r.err)
    end)
  end
end)
