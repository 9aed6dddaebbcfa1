-- Rows of the feature checklist that concern configuration, by their numbers, and what surrounds
-- them.

local blame = require "ipulua.base.blame"
local command = require "spec.support.command"
local config = require "ipulua.config"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"

local function kind_and_message(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return blame.last.kind, message
end

local function refuses(kind, words, f, ...)
  local got, message = kind_and_message(f, ...)
  assert.matches(words, message, 1, true)
  assert.equal(kind, got)
end

local defaults <const> = {
  auto_select_ipus = {}, select_ipus = {}, selection_order = "AUTO", allow_recompute = false,
  serialization_output_folder = "", compilation_poplar_options = {}, gcl_poplar_options = {},
  ["convolutions.poplar_options"] = {}, ["matmuls.poplar_options"] = {},
  ["matmuls.clear_pass_type"] = false,
  ["slices.poplar_options"] = {}, ["pooling.poplar_options"] = {},
  ["device_connection.type"] = "ALWAYS",
  ["device_connection.version"] = "", ["device_connection.enable_remote_buffers"] = false,
  ["experimental.always_rearrange_copies_on_the_host"] = false,
  ["experimental.enable_remote_buffer_embedding"] = false,
  ["experimental.enable_prng_stability"] = false,
  ["experimental.multi_replica_distribution.process_index"] = 0,
  ["experimental.multi_replica_distribution.process_count"] = 0,
  ["floating_point_behaviour.inv"] = false, ["floating_point_behaviour.div0"] = false,
  ["floating_point_behaviour.oflo"] = false, ["floating_point_behaviour.esr"] = "OFF",
  ["floating_point_behaviour.nanoo"] = false, ["floating_point_behaviour.set_all"] = false,
  ["io_tiles.num_io_tiles"] = 0, ["io_tiles.place_ops_on_io_tiles"] = false,
  ["io_tiles.available_memory_proportion"] = 0.9, ["ipu_model.compile_ipu_code"] = true,
  ["ipu_model.tiles_per_ipu"] = 0, ["ipu_model.version"] = "ipu2",
  ["norms.use_stable_statistics"] = false,
  ["norms.experimental.distributed_batch_norm_replica_group_size"] = 1,
  ["optimizations.math.fast"] = false,
  ["optimizations.math.dot_strength"] = true, ["optimizations.prefetch_data_streams"] = true,
  ["optimizations.combine_embedding_lookups"] = false, ["optimizations.combine_matmuls"] = false,
  ["optimizations.enable_graph_outlining"] = true, ["optimizations.merge_infeed_io_copies"] = true,
  ["optimizations.maximum_cross_replica_sum_buffer_size"] = 0,
  ["optimizations.maximum_reduce_scatter_buffer_size"] = 0,
  ["optimizations.maximum_inter_ipu_copies_buffer_size"] = 0,
  ["optimizations.maximum_send_recv_cluster_size"] = 0,
  ["optimizations.maximum_reduce_many_buffer_size"] = 0,
  ["optimizations.maximum_all_gather_buffer_size"] = 0,
  ["optimizations.minimum_remote_tensor_size"] = 128,
  ["optimizations.merge_remote_buffers"] = "IF_BENEFICIAL",
  ["optimizations.enable_gather_simplifier"] = true,
  ["optimizations.triangular_solve_expander_block_size"] = 0,
  ["optimizations.cholesky_block_size"] = 0, ["optimizations.enable_fast_math"] = false,
  ["optimizations.enable_dynamic_slice_replacement"] = true,
  ["scheduling.algorithm"] = "CHOOSE_BEST",
  ["scheduling.maximum_scheduler_lookahead_depth"] = 5,
  ["scheduling.maximum_scheduler_search_space_size"] = 64,
}

local cfg
before_each(function()
  config.reset_ipu_configuration()
  config.set_flags("")
  cfg = config.IPUConfig()
end)
teardown(function()
  config.reset_ipu_configuration()
  config.set_flags(os.getenv("IPULUA_FLAGS") or "")
end)

describe("IPUConfig", function()
  it("rows 1, 2: has nested options with their defaults", function()
    assert.equal("ipu2", cfg.ipu_model.version)
    assert.same(defaults, cfg:to_dict())
  end)

  it("row 3: acts when applied, not before", function()
    cfg.auto_select_ipus = 2
    assert.is_false(config.is_configured())
    refuses("runtime", "no IPU system is configured", config.get_ipu_config)
    cfg:configure_ipu_system()
    assert.is_true(config.is_configured())
    assert.same({{device = "/device:IPU:0", ipus = 2, id = 16, members = {5, 7}}},
      config.get_ipu_config())
    assert.same({2}, cfg.auto_select_ipus)
  end)

  for _, case in ipairs {
    {"ipu_model", "version", true, "'ipu_model.version' must be of type str, got boolean (true)"},
    {"ipu_model", "tiles_per_ipu", true,
      "'ipu_model.tiles_per_ipu' must be of type int, got boolean (true)"},
    {"ipu_model", "tiles_per_ipu", 2.5,
      "'ipu_model.tiles_per_ipu' must be of type int, got number (2.5)"},
    {"ipu_model", "tiles_per_ipu", 0 / 0, "'ipu_model.tiles_per_ipu' must be of type int"},
    {"ipu_model", "compile_ipu_code", 1,
      "'ipu_model.compile_ipu_code' must be of type bool, got integer (1)"},
    {"io_tiles", "available_memory_proportion", "1", "must be of type float, got string (1)"},
    {"io_tiles", "available_memory_proportion", math.maxinteger,
      "must be of type float, got integer"},
    {"matmuls", "poplar_options", {partialsType = true},
      "dict (a table of str to str), got boolean (true) for 'partialsType'"},
    {"matmuls", "poplar_options", {"half"},
      "dict (a table of str to str), got the key integer (1)"},
    {"scheduling", "algorithm", 3,
      "SchedulingAlgorithm (CHOOSE_BEST, CLUSTERING, POST_ORDER, LOOK_AHEAD, SHORTEST_PATH)"},
    {"ipu_model", "version", nil, "must be of type str, got nil"},
  } do
    it("row 4: checks the type of " .. case[1] .. "." .. case[2] .. " = "
      .. tostring(case[3]), function()
      local before = cfg[case[1]][case[2]]
      refuses("type", case[4], function() cfg[case[1]][case[2]] = case[3] end)
      assert.same(before, cfg[case[1]][case[2]])
    end)
  end

  it("row 4: checks lists of numbers", function()
    refuses("type", "'select_ipus' must be of type int or list (a list of int), got string (a) at "
      .. "position 2",
      function() cfg.select_ipus = {1, "a"} end)
    refuses("type", "'select_ipus'", function() cfg.select_ipus = {1, nil, 3} end)
    refuses("type", "'auto_select_ipus'", function() cfg.auto_select_ipus = {a = 1} end)
  end)

  it(
    "row 4: takes integers for floats, whole floats for integers, enumerations in any case",
    function()
    cfg.io_tiles.available_memory_proportion = 1
    assert.equal("float", math.type(cfg.io_tiles.available_memory_proportion))
    cfg.ipu_model.tiles_per_ipu = 8.0
    assert.equal("integer", math.type(cfg.ipu_model.tiles_per_ipu))
    cfg.selection_order = "snake"
    assert.equal("SNAKE", cfg.selection_order)
  end)

  it("row 5: refuses unknown names and suggests full ones", function()
    refuses("value", "'ipu_model.vrsion' is not a valid attribute of IPUConfig. Did you mean "
      .. "'ipu_model.version'?",
      function() cfg.ipu_model.vrsion = "x" end)
    refuses("value", "Did you mean 'ipu_model.version'?", function()
      return cfg.ipu_model.vrsion
    end)
    refuses("value", "Did you mean 'floating_point_behaviour.nanoo'?", function()
      return cfg.nanoo
    end)
    refuses("value", "Did you mean 'floating_point_behaviour'?", function()
      return cfg.floating_point_behavior
    end)
    refuses("value", "'3' is not a valid attribute", function() cfg[3] = 1 end)
    refuses("value", "'configure_ipu_system' is not a valid attribute", function()
      cfg.configure_ipu_system = 1
    end)
    local _, message = kind_and_message(function() return cfg[("x"):rep(100000)] end)
    assert.is_true(#message < 500)
  end)

  it("row 6: refuses to assign to a category", function()
    refuses("value", "'experimental' is a category of options and cannot be assigned to", function()
      cfg.experimental = 2
    end)
    refuses("value", "'norms.experimental' is a category", function()
      cfg.norms.experimental = {}
    end)
  end)

  it("row 7: gives metadata", function()
    local m = cfg:get_attribute_metadata("ipu_model.version")
    assert.same({"ipu_model.version", "str", "ipu2", false},
      {m.name, m.type, m.default, m.deprecated})
    assert.is_string(m.doc)
    refuses("type", "'ipu_model.version' must be of type str, got integer (5)", m.check_type, m, 5)
    m:check_type("ipu1")
    assert.equal("ipu_model.tiles_per_ipu",
      cfg.ipu_model:get_attribute_metadata("tiles_per_ipu").name)
    local category = cfg:get_attribute_metadata("norms.experimental")
    assert.is_nil(category.type)
    assert.is_nil(category.default)
    refuses("value", "ipu_model.nonsense", cfg.get_attribute_metadata, cfg, "ipu_model.nonsense")
    assert.equal("SchedulingAlgorithm", cfg:get_attribute_metadata("scheduling.algorithm").type)
    assert.same({"int", "list"}, cfg:get_attribute_metadata("auto_select_ipus").types)
  end)

  it("row 7: has metadata and words for every option", function()
    for name, default in pairs(defaults) do
      local m = cfg:get_attribute_metadata(name)
      assert.same(default, m.default)
      assert.is_true(#m.doc > 10)
      m:check_type(default)
    end
  end)

  it("row 8: warns about deprecated options", function()
    local lines = log.capture("warn", function() cfg.optimizations.enable_fast_math = true end)
    assert.equal(1, #lines)
    assert.matches("optimizations.enable_fast_math.*deprecated.*optimizations.math.fast", lines[1])
    local m = cfg:get_attribute_metadata("optimizations.enable_fast_math")
    assert.is_true(m.deprecated)
    assert.equal(1, #log.capture("warn", m.warn_if_deprecated, m))
    cfg:configure_ipu_system()
    assert.is_true(config.get("optimizations.math.fast"))
  end)

  it("row 9: goes through dictionaries and JSON", function()
    cfg.auto_select_ipus = {1, 2}
    cfg.matmuls.poplar_options = {partialsType = "half"}
    cfg.scheduling.algorithm = "CLUSTERING"
    local other = config.IPUConfig()
    assert.same({}, log.capture("warn", other.from_dict, other, cfg:to_dict()))
    assert.same(cfg:to_dict(), other:to_dict())
    other = config.IPUConfig()
    other:from_json(cfg:to_json())
    assert.same(cfg:to_dict(), other:to_dict())
    assert.equal("CLUSTERING", json.decode(cfg:to_json())["scheduling.algorithm"])
    assert.matches('"select_ipus": []', cfg:to_json(), 1, true)
  end)

  it("row 9: warns about what a dictionary lacks, refuses what it has too much", function()
    local dict = cfg:to_dict()
    dict.allow_recompute = nil
    cfg.allow_recompute = true
    local lines = log.capture("warn", cfg.from_dict, cfg, dict)
    assert.equal(1, #lines)
    assert.matches("allow_recompute", lines[1])
    assert.is_true(cfg.allow_recompute)
    dict["ipu_model.vrsion"] = "ipu1"
    refuses("value", "Did you mean 'ipu_model.version'?", cfg.from_dict, cfg, dict)
    refuses("type", "takes a table", cfg.from_dict, cfg, 5)
    refuses("value", "from_json: line 1", cfg.from_json, cfg, "{")
    for _, text in ipairs{"[]", "[1]", "7"} do
      refuses("value", "from_json takes an object", cfg.from_json, cfg, text)
    end
    refuses("value", "IPUConfig: from_json: 'ipus' is not a valid attribute", cfg.from_json, cfg,
      '{"ipus": 2}')
    refuses("type", "IPUConfig: from_json: 'allow_recompute' must be of type bool", cfg.from_json,
      cfg, '{"allow_recompute": 2}')
    refuses("type", "IPUConfig: from_dict: 'allow_recompute' must be of type bool", cfg.from_dict,
      cfg, {allow_recompute = 2})
  end)

  it("row 9: warns once, however much is missing, and names some of it", function()
    local count = 0
    for _ in pairs(cfg:to_dict()) do count = count + 1 end
    for call, given in pairs{from_json = "{}", from_dict = {}} do
      local lines = log.capture("warn", cfg[call], cfg, given)
      assert.equal(1, #lines)
      assert.matches(string.format("IPUConfig: %s was not given %d of the %d options", call, count,
        count), lines[1], 1, true)
      assert.matches("auto_select_ipus", lines[1])
      assert.matches(string.format(" and %d more", count - 3), lines[1], 1, true)
    end
  end)

  it("row 9: takes nothing over from a dictionary with a wrong value", function()
    local dict = cfg:to_dict()
    dict.allow_recompute, dict["ipu_model.tiles_per_ipu"] = true, "x"
    refuses("type", "tiles_per_ipu", cfg.from_dict, cfg, dict)
    assert.is_false(cfg.allow_recompute)
  end)

  it("row 10: has a text form", function()
    cfg.auto_select_ipus = {4}
    cfg.convolutions.poplar_options = {b = "2", a = "1"}
    local text = tostring(cfg)
    assert.matches("auto_select_ipus = {4}\n", text, 1, true)
    assert.matches('convolutions.poplar_options = {["a"] = "1", ["b"] = "2"}', text, 1, true)
    assert.matches('ipu_model.version = "ipu2"', text, 1, true)
    local count = 0
    for _ in pairs(defaults) do count = count + 1 end
    assert.equal(count, select(2, text:gsub("\n", "\n")) + 1)
    assert.matches("^IPUConfig:\n  auto_select_ipus = {4}\n", cfg:debug_text())
    assert.matches("^scheduling.algorithm = ", tostring(cfg.scheduling))
  end)

  it("keeps copies apart", function()
    cfg.matmuls.poplar_options = {a = "1"}
    local copy = cfg:copy()
    copy.matmuls.poplar_options.a = "2"
    copy.ipu_model.version = "ipu1"
    assert.equal("1", cfg.matmuls.poplar_options.a)
    assert.equal("ipu2", cfg.ipu_model.version)
  end)

  it("takes no arguments", function()
    refuses("type", "takes no arguments", config.IPUConfig, {})
  end)
end)

describe("devices", function()
  it("row 11: selects a number of IPUs", function()
    cfg.auto_select_ipus = 4
    cfg:configure_ipu_system()
    assert.equal(4, config.get_num_of_ipus_in_device("/device:IPU:0"))
    assert.same({{device = "/device:IPU:0", ipus = 4, id = 24, members = {4, 5, 6, 7}}},
      config.get_ipu_config())
    refuses("not_found", "there is no device /device:IPU:1", config.get_num_of_ipus_in_device,
      "/device:IPU:1")
    refuses("value", "a device is named like", config.get_num_of_ipus_in_device, "/device:CPU:0")
  end)

  it("row 12: makes a device of each number", function()
    cfg.auto_select_ipus = {1, 2, 8, 1}
    config.configure_ipu_system(cfg)
    assert.equal(2, config.get_num_of_ipus_in_device("/device:IPU:1"))
    local ids = {}
    for i, device in ipairs(config.get_ipu_config()) do ids[i] = device.id end
    assert.same({0, 16, 29, 1}, ids)
  end)

  for _, case in ipairs {
    {24, {4, 5, 6, 7}}, {16, {5, 7}}, {19, {0, 2}},
    {23, {8, 10}}, {25, {0, 1, 2, 3}}, {26, {12, 13, 14, 15}}, {27, {8, 9, 10, 11}},
    {28, {0, 1, 2, 3, 4, 5, 6, 7}}, {29, {8, 9, 10, 11, 12, 13, 14, 15}}, {3, {3}},
    {30, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
  } do
    it("row 13: knows the members of id " .. case[1], function()
      cfg.select_ipus = case[1]
      cfg:configure_ipu_system()
      assert.same({{device = "/device:IPU:0", ipus = #case[2], id = case[1], members = case[2]}},
        config.get_ipu_config())
    end)
  end

  it("row 13: numbers groups of machines of other sizes consecutively", function()
    config.set_system_ipus(8)
    finally(function()
      config.reset_ipu_configuration()
      config.set_system_ipus(16)
    end)
    cfg.select_ipus = {8, 13}
    cfg:configure_ipu_system()
    assert.same({0, 1}, config.get_ipu_config()[1].members)
    assert.same({4, 5, 6, 7}, config.get_ipu_config()[2].members)
    refuses("value", "power of two", config.set_system_ipus, 12)
    refuses("failed_precondition", "before configuring", config.set_system_ipus, 4)
  end)

  it("row 14: refuses both selections", function()
    cfg.auto_select_ipus, cfg.select_ipus = {1, 1}, {1, 2}
    refuses("value", "only one of 'auto_select_ipus' and 'select_ipus'",
      cfg.configure_ipu_system, cfg)
  end)

  for _, case in ipairs {
    {"select_ipus", {3, 3}, "value", "the id 3 twice"},
    {"select_ipus", {31}, "not_found", "the id 31"},
    {"select_ipus", {-1}, "not_found", "the id -1"},
    {"select_ipus", {0, 16, 5}, "failed_precondition", "16 and 5, which share IPU 5"},
    {"auto_select_ipus", 3, "failed_precondition", "unsupported number of IPUs: 3"},
    {"auto_select_ipus", 32, "failed_precondition", "unsupported number of IPUs: 32"},
    {"auto_select_ipus", {8, 8, 1}, "failed_precondition", "unsupported number of IPUs: 1"},
    {"auto_select_ipus", 0, "failed_precondition", "unsupported number of IPUs: 0"},
    {"auto_select_ipus", -4, "failed_precondition", "unsupported number of IPUs: -4"},
  } do
    it("row 15: refuses " .. case[1] .. " = " .. json.encode(case[2]), function()
      cfg[case[1]] = case[2]
      refuses(case[3], case[4], cfg.configure_ipu_system, cfg)
      assert.is_false(config.is_configured())
    end)
  end

  it("row 15: takes any number on the IPU Model, within reason", function()
    config.set_flags("--use_ipu_model")
    cfg.auto_select_ipus = {2, 3, 17}
    cfg:configure_ipu_system()
    assert.same({2, 3, 4}, config.get_ipu_config()[2].members)
    config.reset_ipu_configuration()
    cfg.auto_select_ipus = math.maxinteger
    refuses("failed_precondition", "unsupported number of IPUs", cfg.configure_ipu_system, cfg)
  end)

  it("makes devices as large as --ipus says", function()
    local function run(machine, ipus)
      return command.run{command.ipulua, "--ipus", machine, "-e", ([[local ipu = require "ipulua"
        local cfg = ipu.IPUConfig()
        cfg.auto_select_ipus = %d
        cfg:configure_ipu_system()
        print(ipu.get_num_of_ipus_in_device("/device:IPU:0"))]]):format(ipus)}
    end
    assert.equal("64\n", run("64", 64).out)
    assert.matches("%(command line%):4: IPUConfig: unsupported number of IPUs: 8 %(the machine has "
      .. "4; ipulua %-%-ipus N", run("4", 8).err)
    assert.matches("'%-%-ipus' needs a power of two of at least 1 and at most 1024, got '3'",
      run("3", 2).err)
  end)

  it("row 16: logs what was attached", function()
    assert.same({"ipulua: info: Device /device:IPU:0 attached to IPU: 0"},
      log.capture("info", cfg.configure_ipu_system, cfg))
    config.reset_ipu_configuration()
    cfg.auto_select_ipus = 4
    assert.same({"ipulua: info: Device /device:IPU:0 attached to IPUs: 24"},
      log.capture("info", cfg.configure_ipu_system, cfg))
  end)

  it("row 17: knows the selection orders", function()
    assert.same({0, 1, 3, 2}, config.selection_order("SNAKE", 4))
    assert.same({0, 1, 2, 3}, config.selection_order("zigzag", 4))
    assert.same({0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14},
      config.selection_order("SNAKE", 16))
    assert.same({0, 2, 4, 6, 8, 10, 12, 14, 15, 13, 11, 9, 7, 5, 3, 1},
      config.selection_order("HOOF", 16))
    assert.same({0, 1, 3, 2}, config.selection_order("AUTO", 4, {default_pipeline = true}))
    assert.same({0, 1, 2, 3}, config.selection_order("AUTO", 4))
    assert.same({0}, config.selection_order("HOOF", 1))
    for _, order in ipairs {"SNAKE", "HOOF", "ZIGZAG"} do
      for count = 1, 9 do
        local list = config.selection_order(order, count)
        table.sort(list)
        assert.same(config.selection_order("ZIGZAG", count), list)
      end
    end
    refuses("value", "AUTO, ZIGZAG, SNAKE, HOOF", config.selection_order, "SPIRAL", 4)
    refuses("value", "must lie in [1, 1024]", config.selection_order, "SNAKE", 1 << 40)
  end)

  it("row 18: resets", function()
    cfg:configure_ipu_system()
    config.reset_ipu_configuration()
    config.reset_ipu_configuration()
    refuses("runtime", "no IPU system", config.get_ipu_config)
    cfg.auto_select_ipus = 2
    assert.same({}, log.capture("warn", cfg.configure_ipu_system, cfg))
  end)

  it("row 19: warns and resets for a different configuration, leaves an identical one", function()
    local applied, resets = 0, 0
    config.on_apply(function() applied = applied + 1 end)
    config.on_reset(function() resets = resets + 1 end)
    cfg.matmuls.poplar_options = {a = "1", b = "2"}
    cfg:configure_ipu_system()
    assert.same({}, log.capture("warn", cfg.configure_ipu_system, cfg))
    local same = config.IPUConfig()
    same.matmuls.poplar_options = {b = "2", a = "1"}
    assert.same({}, log.capture("warn", same.configure_ipu_system, same))
    assert.same({1, 0}, {applied, resets})
    cfg.auto_select_ipus = 2
    local lines = log.capture("warn", cfg.configure_ipu_system, cfg)
    assert.matches("existing configuration is being reset", lines[1])
    assert.same({2, 1}, {applied, resets})
    cfg.auto_select_ipus = 4
    refuses("failed_precondition", "reset_ipu_configuration", cfg.configure_ipu_system, cfg,
      {reset_configuration = false})
    assert.equal(2, config.get_num_of_ipus_in_device("/device:IPU:0"))
  end)

  it("row 19: leaves the active configuration when a new one is wrong", function()
    cfg.auto_select_ipus = 2
    cfg:configure_ipu_system()
    local wrong = config.IPUConfig()
    wrong.auto_select_ipus = 3
    refuses("failed_precondition", "3", wrong.configure_ipu_system, wrong)
    assert.equal(2, config.get_num_of_ipus_in_device("/device:IPU:0"))
  end)

  it("row 20: is known of once it is configured; copies are handed out", function()
    refuses("runtime", "no IPU system is configured; call configure_ipu_system first",
      config.get_ipu_config)
    cfg:configure_ipu_system()
    config.get_ipu_config()[1].members[1] = 99
    assert.same({0}, config.get_ipu_config()[1].members)
  end)

  it("row 21: has a default device from its first use on", function()
    local seen
    config.on_apply(function(_, list) seen = #list end)
    assert.equal(1, config.get_num_of_ipus_in_device("/device:IPU:0"))
    assert.equal(1, seen)
    assert.is_false(config.is_configured())
    assert.equal(0, config.get_ipu_config()[1].id)
    cfg.auto_select_ipus = 2
    assert.same({}, log.capture("warn", cfg.configure_ipu_system, cfg))
    assert.equal(2, config.get_num_of_ipus_in_device(0))
  end)

  it("rows 25, 26: attaches late or never", function()
    cfg.device_connection.type = "ON_DEMAND"
    assert.same({}, log.capture("info", cfg.configure_ipu_system, cfg))
    assert.equal(1, #log.capture("info", config.attached_device, 0))
    assert.equal(0, #log.capture("info", config.attached_device, 0))
    config.reset_ipu_configuration()
    cfg.device_connection.type = "NEVER"
    refuses("value", "device_connection.version", cfg.configure_ipu_system, cfg)
    cfg.device_connection.version = "ipu2"
    cfg:configure_ipu_system()
    refuses("failed_precondition", "NEVER", config.attached_device, 0)
  end)

  it("row 26: compiles without running: zeros come back, and no variable moves", function()
    local ipu = require "ipulua"
    cfg.device_connection.type = "PRE_COMPILE"
    refuses("value", "device_connection.version", cfg.configure_ipu_system, cfg)
    cfg.device_connection.version = "ipu2"
    assert.same({}, log.capture("info", cfg.configure_ipu_system, cfg))
    local w, queue = ipu.Variable(5.0), ipu.IPUOutfeedQueue()
    local f = ipu.func(function(x)
      return ipu.loops.repeat_n(3, function(sum)
        queue:enqueue(sum)
        return sum + w:assign_add(1.0)
      end, {x})
    end)
    assert.same({}, log.capture("info", function()
      assert.same({0, 0}, f(ipu.ones{2}):totable())
    end))
    assert.same({0, 0}, ipu.IPUStrategy():run_async(f, {ipu.ones{2}}):wait():totable())
    assert.same({6, 2}, queue:dequeue().shape)
    assert.equal(5, w:item())
    assert.equal("COMPILE_BEGIN", ipu.ipu_event_trace()[1].type)
  end)
end)

describe("settings", function()
  it("rows 23, 24: hold the chip, and know what the script chose", function()
    assert.equal("ipu2", config.get("ipu_model.version"))
    cfg.ipu_model.tiles_per_ipu = 4
    cfg.ipu_model.compile_ipu_code = false
    cfg:configure_ipu_system()
    assert.equal(4, config.get("ipu_model.tiles_per_ipu"))
    assert.is_false(config.get("ipu_model.compile_ipu_code"))
    assert.is_true(config.is_assigned("ipu_model.tiles_per_ipu"))
    assert.is_false(config.is_assigned("ipu_model.version"))
    config.reset_ipu_configuration()
    config.set_flags("--ipu_model_tiles=8")
    cfg:configure_ipu_system()
    assert.equal(8, config.get("ipu_model.tiles_per_ipu"))
  end)

  it("row 27: set_all stands for all floating point flags, the object stays as it was", function()
    cfg.floating_point_behaviour.set_all = true
    cfg:configure_ipu_system()
    for _, flag in ipairs {"inv", "div0", "oflo", "nanoo"} do
      assert.is_true(config.get("floating_point_behaviour." .. flag))
      assert.is_false(cfg.floating_point_behaviour[flag])
    end
    assert.equal("ON", config.get("floating_point_behaviour.esr"))
  end)

  it("row 28: rounds I/O tiles up to an even number", function()
    cfg.io_tiles.num_io_tiles = 31
    cfg.io_tiles.place_ops_on_io_tiles = true
    cfg:configure_ipu_system()
    assert.equal(32, config.get("io_tiles.num_io_tiles"))
    assert.equal(31, cfg.io_tiles.num_io_tiles)
  end)

  for _, case in ipairs {
    {"io_tiles", "num_io_tiles", 193, "'io_tiles.num_io_tiles' must be at most 192, got 193"},
    {"io_tiles", "num_io_tiles", -1, "at least 0"},
    {"io_tiles", "place_ops_on_io_tiles", true, "num_io_tiles' is 0"},
    {"io_tiles", "available_memory_proportion", 0, "must be greater than 0"},
    {"io_tiles", "available_memory_proportion", 1.5, "must be at most 1"},
    {"ipu_model", "version", "ipu9", "must be one of ipu1, ipu2, ipu21, got \"ipu9\""},
    {"ipu_model", "tiles_per_ipu", 1 << 40, "must be at most 65536"},
    {"optimizations", "minimum_remote_tensor_size", -1, "at least 0"},
    {{"norms", "experimental"}, "distributed_batch_norm_replica_group_size", 0, "at least 1"},
    {{"experimental", "multi_replica_distribution"}, "process_index", 1,
      "must be in [0, process_count)"},
    {{"experimental", "multi_replica_distribution"}, "process_count", -1, "at least 0"},
  } do
    it("row 28: refuses " .. case[2] .. " = " .. tostring(case[3]) .. " when applied", function()
      local category = type(case[1]) == "table" and cfg[case[1][1]][case[1][2]] or cfg[case[1]]
      category[case[2]] = case[3]
      refuses("value", case[4], cfg.configure_ipu_system, cfg)
    end)
  end

  it(
    "row 28: refuses I/O tiles with groups of batch statistics, and more than there are tiles",
    function()
    cfg.io_tiles.num_io_tiles = 10
    cfg.ipu_model.tiles_per_ipu = 8
    refuses("value", "leaves no tile of the 8", cfg.configure_ipu_system, cfg)
    cfg.ipu_model.tiles_per_ipu = 0
    cfg.norms.experimental.distributed_batch_norm_replica_group_size = 2
    refuses("value", "distributed_batch_norm_replica_group_size", cfg.configure_ipu_system, cfg)
  end)

  it("row 29: hold library options; a table edited in place is checked when applied", function()
    cfg.matmuls.poplar_options = {partialsType = "half"}
    cfg.convolutions.poplar_options.availableMemoryProportion = "0.2"
    cfg:configure_ipu_system()
    assert.same({partialsType = "half"}, config.get("matmuls.poplar_options"))
    assert.same({availableMemoryProportion = "0.2"}, config.get("convolutions.poplar_options"))
    for _, wrong in ipairs {{"partialsType", "Half"}, {"partialsType", "bogus"},
      {"partialType", "half"},
      {"availableMemoryProportion", "x"}, {"availableMemoryProportion", "nan"},
      {"availableMemoryProportion", "-1"},
      {"availableMemoryProportion", "0"}, {"availableMemoryProportion", "1.5"},
      {"availableMemoryPropotion", "0.1"}} do
      for _, group in ipairs {"convolutions", "matmuls", "slices", "pooling"} do
        local former = cfg[group].poplar_options
        cfg[group].poplar_options = {[wrong[1]] = wrong[2]}
        refuses("value", "IPUConfig: '" .. group .. ".poplar_options'", cfg.configure_ipu_system,
          cfg)
        cfg[group].poplar_options = former
      end
      for _, name in ipairs {"matmul_options", "slice_options"} do
        refuses("value", "PipelineStageOptions: '" .. name .. "'",
          require("ipulua").PipelineStageOptions, {[name] = {[wrong[1]] = wrong[2]}})
      end
    end
    cfg.convolutions.poplar_options = {enableFastReduce = "true"} -- one of Poplar's many others
    config.reset_ipu_configuration()
    cfg:configure_ipu_system()
    assert.same({partialsType = "half"}, config.get("matmuls.poplar_options"))
    cfg.matmuls.poplar_options.partialsType = 5
    refuses("type", "'matmuls.poplar_options'", cfg.configure_ipu_system, cfg)
    assert.same({partialsType = "half"}, config.get("matmuls.poplar_options"))
  end)

  it("row 32: accept every scheduling algorithm", function()
    for _, algorithm in ipairs {"CHOOSE_BEST", "CLUSTERING", "POST_ORDER", "LOOK_AHEAD",
      "SHORTEST_PATH"} do
      config.reset_ipu_configuration()
      cfg.scheduling.algorithm = algorithm
      cfg:configure_ipu_system()
      assert.equal(algorithm, config.get("scheduling.algorithm"))
    end
  end)

  it("refuses distribution over processes on the IPU Model only", function()
    cfg.experimental.multi_replica_distribution.process_count = 2
    cfg.experimental.multi_replica_distribution.process_index = 1
    cfg:configure_ipu_system()
    config.reset_ipu_configuration()
    config.set_flags("--use_ipu_model")
    refuses("value", "Multi-replica distribution", cfg.configure_ipu_system, cfg)
  end)

  it("forgets a configuration that the engine refuses", function()
    local refuse = true
    config.on_apply(function() if refuse then error("no room", 0) end end)
    local ok, message = pcall(cfg.configure_ipu_system, cfg)
    refuse = false
    assert.same({false, "no room"}, {ok, message})
    refuses("runtime", "no IPU system", config.get_ipu_config)
    cfg:configure_ipu_system()
  end)

  it("row 246: joins engine options from the configuration and the environment", function()
    cfg.compilation_poplar_options = {["autoReport.all"] = "true"}
    cfg:configure_ipu_system()
    local environment
    local getenv = stub(os, "getenv", function(name)
      return name == "IPULUA_ENGINE_OPTIONS" and environment or nil
    end)
    finally(function() getenv:revert() end)
    assert.same({["autoReport.all"] = "true"}, config.engine_options())
    environment = '{"autoReport.all": "false", "autoReport.directory": "logs"}'
    assert.same({["autoReport.all"] = "false", ["autoReport.directory"] = "logs"},
      config.engine_options())
    for _, case in ipairs {{"{", "value", "line 1"}, {"[1]", "value", "an object"},
      {'{"a": 1}', "type", "must be a string"},
      {'{"autoReport.executionProfileProgramRunCount": "x"}', "value",
        "RunCount' must be an integer, got string (x)"},
      {'{"autoReport.executionProfileProgramRunCount": "0"}', "value",
        "RunCount' must be at least 1, got string (0)"},
      {'{"autoReport.all": "yes"}', "value",
        "IPULUA_ENGINE_OPTIONS: 'autoReport.all' must be true or false, got string (yes)"}} do
      environment = case[1]
      refuses(case[2], case[3], config.engine_options)
    end
  end)
end)

describe("run flags", function()
  it("row 33: are read, with defaults", function()
    config.set_flags("  --use_ipu_model --max_infeed_threads=3\t--log_cycle_count=0 "
      .. "--executable_cache_path=a/b=c ")
    local flags = config.flags()
    assert.is_true(flags.use_ipu_model)
    assert.is_true(config.running_on_ipu_model())
    assert.equal(3, flags.max_infeed_threads)
    assert.equal(0, flags.log_cycle_count)
    assert.equal("a/b=c", flags.executable_cache_path)
    assert.equal(128, flags.while_loop_brute_force_max_trip_count)
    config.set_flags("--use_ipu_model=false")
    assert.is_false(config.running_on_ipu_model())
  end)

  for _, case in ipairs {
    {"--use_ipu_modle", "unknown flag '--use_ipu_modle'; did you mean '--use_ipu_model'?"},
    {"--zzzzzz=1", "unknown flag '--zzzzzz' (--help lists all flags)"},
    {"use_ipu_model", "'use_ipu_model' is no flag"},
    {"-use_ipu_model", "is no flag"}, {"--", "'--' is no flag"}, {"--=1", "is no flag"},
    {"--use_ipu_model=maybe", "must be true or false, got 'maybe'"},
    {"--max_infeed_threads=many", "must be an integer, got 'many'"},
    {"--max_infeed_threads=", "must be an integer, got ''"},
    {"--max_infeed_threads", "needs a value, as in --max_infeed_threads=..."},
    {"--max_infeed_threads=-2", "at least -1, got -2"},
    {"--ipu_model_tiles=99999999999999999999", "must be an integer"},
    {"--on_demand_device_poll_time=99", "at least 100, got 99"},
    {"--show_progress_bar=yes", "true, false or auto"},
    {"--synthetic_data_categories=infeed,weights", "'weights' is none of them"},
    {"--synthetic_data_initializer=3", "needs --use_synthetic_data or --synthetic_data_categories"},
    {"--use_synthetic_data --synthetic_data_initializer=zeros", "uniform, normal or a number"},
    {"--use_synthetic_data --synthetic_data_initializer=nan", "uniform, normal or a number"},
  } do
    it("row 33: refuses " .. case[1], function()
      refuses("value", case[2], config.set_flags, case[1])
      assert.is_false(config.running_on_ipu_model())
    end)
  end

  it("row 33: --help lists all and stops", function()
    local run = command.run{command.ipulua, "-e",
      "require 'ipulua'.set_flags '--help' print 'it went on'"}
    assert.equal(0, run.status)
    assert.falsy(run.out:find("it went on", 1, true))
    for name in pairs(config.flags()) do assert.matches("--" .. name .. " (", run.out, 1, true) end
  end)

  it("row 33: are read from IPULUA_FLAGS at first need", function()
    local names <const> = {"ipulua.config", "ipulua.config.ipu_config"}
    local former = {}
    for _, name in ipairs(names) do
      former[name], package.loaded[name] = package.loaded[name], nil
    end
    local fresh = require "ipulua.config"
    for _, name in ipairs(names) do package.loaded[name] = former[name] end
    local environment = "--use_ipu_modle"
    local getenv = stub(os, "getenv", function(name)
      return name == "IPULUA_FLAGS" and environment or nil
    end)
    finally(function() getenv:revert() end)
    refuses("value", "IPULUA_FLAGS: unknown flag", fresh.running_on_ipu_model)
    environment = "--use_ipu_model"
    assert.is_true(fresh.running_on_ipu_model())
  end)

  it("row 33: count only before configuring", function()
    cfg:configure_ipu_system()
    refuses("failed_precondition", "reset_ipu_configuration", config.set_flags, "--use_ipu_model")
    refuses("type", "takes a text", config.set_flags, 5)
  end)

  it("row 34: switch synthetic data on by category", function()
    assert.is_false(config.use_synthetic_data_for("infeed"))
    config.set_flags("--synthetic_data_categories=infeed,HostEmbedding "
      .. "--synthetic_data_initializer=3")
    assert.is_true(config.use_synthetic_data_for("infeed"))
    assert.is_true(config.use_synthetic_data_for("hostembedding"))
    assert.is_false(config.use_synthetic_data_for("outfeed"))
    assert.equal(3.0, config.flags().synthetic_data_initializer)
    config.set_flags("--use_synthetic_data")
    assert.is_true(config.use_synthetic_data_for("outfeed"))
    refuses("value", "infeed, outfeed, seed, hostembedding, parameters",
      config.use_synthetic_data_for, "weights")
  end)

  it("row 37: accept thread counts", function()
    config.set_flags("--max_infeed_threads=2 --max_compilation_threads=1")
    assert.same({2, 1}, {config.flags().max_infeed_threads, config.flags().max_compilation_threads})
  end)
end)

describe("shards and replicas", function()
  local devices = require "ipulua.config.devices"

  it("rounds shards up to a power of two", function()
    local counts = {}
    for largest = 0, 8 do counts[#counts + 1] = devices.shard_count(largest) end
    assert.same({1, 2, 4, 4, 8, 8, 8, 8, 16}, counts)
  end)

  it("divides IPUs by shards", function()
    assert.equal(2, devices.replica_count(2, 1))
    assert.equal(1, devices.replica_count(4, 4))
    refuses("failed_precondition",
      "a device with 2 IPUs and has 4 shards; the number of IPUs must be a multiple of 4",
      devices.replica_count, 2, 4)
  end)

  it("numbers ids so that the last is the whole machine", function()
    for k = 0, 6 do
      local n = 1 << k
      assert.equal(2 * n - 2, devices.first_id(n, n))
      assert.equal(n, #devices.members(n, 2 * n - 2))
      assert.is_nil(devices.members(n, 2 * n - 1))
      local count = {}
      for id = 0, 2 * n - 2 do
        for _, ipu in ipairs(devices.members(n, id)) do count[ipu] = (count[ipu] or 0) + 1 end
      end
      for ipu = 0, n - 1 do assert.equal(k + 1, count[ipu]) end
    end
  end)
end)

describe("log", function()
  it("shows lines up to the level, one line each", function()
    local lines = log.capture("info", function()
      log.error("a %d", 1)
      log.info("b\nc")
      log.debug("d")
      log.warn("100%")
    end)
    assert.same({"ipulua: error: a 1", "ipulua: info: b c", "ipulua: warning: 100%"}, lines)
    assert.is_true(log.shows("error"))
  end)
end)
