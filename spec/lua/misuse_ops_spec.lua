-- Every public op, called badly from a script: eagerly, in a traced function and as a method. The
-- error stands at the script's line and names the op, and what is wrong: the argument, its shape,
-- its dtype or its value.

local core = require "ipulua.core"
local ipu = require "ipulua"
local samples = require "spec.support.op_samples"

local here <const> = "misuse_ops_spec%.lua:%d+: "

local function escaped(text) return (text:gsub("%p", "%%%0")) end

-- A call that may be taken; if it isn't, the message is good.
local function refused(name, f, ...)
  local ok, message = pcall(f, ...)
  if ok then return nil end
  local text = tostring(message)
  assert(text:find("^[^:]*" .. here), name .. ": no line of the script in: " .. text)
  assert(text:find(name, 1, true), name .. " isn't named in: " .. text)
  assert.is_truthy(ipu.last_error())
  return text
end

local function must_refuse(name, pattern, f, ...)
  local text = refused(name, f, ...)
  assert(text, name .. " took what it can't take")
  assert(text:find(pattern), "no '" .. pattern .. "' in: " .. text)
end

-- The same call eagerly and in a traced function whose arguments are the tensors.
local function both_ways(name, op, given, check)
  check(name, function(...) return op(...) end, table.unpack(given))
  local traced = ipu.func(function() return (op(table.unpack(given))) end)
  check(name, traced)
end

local function copied(given)
  local list = {}
  for i, value in ipairs(given) do list[i] = value end
  return list
end

-- given with operand i (of the list, for variadic ops) replaced.
local function with_operand(row, given, i, value)
  local list = copied(given)
  if row.variadic then list[1] = copied(list[1]) list[1][i] = value
  else list[i] = value end
  return list
end

local function operand(row, given, i) return row.variadic and given[1][i] or given[i] end

-- Shapes with one axis more, one less, none, and axes turned round.
local function other_shapes(x)
  local longer, shorter, turned = {2}, {}, {}
  for i, extent in ipairs(x.shape) do
    longer[i + 1], turned[#x.shape + 1 - i] = extent, extent + 1
    if i > 1 then shorter[i - 1] = extent end
  end
  return {longer, shorter, {}, turned}
end

-- Values that an attribute of a type can't have.
local without_end <const> = {}
without_end[1] = without_end
local wrong <const> = {
  integer = {"a", {}, true, 0.5, function() end},
  -- integers that a double can't hold would become others
  number = {"a", {}, true, function() end, (1 << 53) + 1, -(1 << 53) - 1},
  boolean = {1, "yes", {}},
  string = {1, {}, true}, list = {"a", true, {"a"}, function() end, {0.5}, without_end},
  dtype = {"float33", 1, {}, true},
}
local long <const>, longer <const> = {}, {}
for i = 1, 200 do long[i], longer[i] = 0, i end
local extreme <const> = {
  integer = {math.mininteger, math.maxinteger, -7, 1 << 40},
  number = {0 / 0, math.huge, -math.huge},
  list = {long, longer, {math.mininteger}, {-5, 1 << 40},
    {1 << 40, 1 << 40, 1 << 40}, {{1, 2}, {3}}},
  string = {"no such choice", ""},
}

local names = {}
for name in pairs(core.ops) do names[#names + 1] = name end
table.sort(names)

for _, name in ipairs(names) do
  local row = core.describe_op(name)
  if not row.internal then
    local op = core.ops[name]

    describe(name .. ", called badly,", function()
      local given, operands, attributes = samples.arguments(row)
      local positional = copied(given)
      if attributes then positional[#positional] = nil end

      it("without arguments says what is missing", function()
        if #row.inputs > 0 then
          must_refuse(name, row.variadic and "must be a list" or "missing", function()
            return op()
          end)
        end
      end)

      it("refuses what is no tensor", function()
        for i = 1, operands do
          for _, value in ipairs {"a", print} do
            both_ways(name, op, with_operand(row, given, i, value), function(who, ...)
              must_refuse(who, "got %a", ...)
            end)
          end
        end
      end)

      it("refuses an argument that it has not", function()
        local list = copied(positional)
        list[#list + 1] = {nonsense = 1}
        if #positional > 0 then
          must_refuse(name, "no argument 'nonsense'", function() return op(table.unpack(list)) end)
        end
      end)

      it("refuses more arguments than it takes, however many", function()
        local list = row.variadic and {given[1]} or {}
        for _, count in ipairs {80, 5000} do
          must_refuse(name, "takes at most %d+ arguments?, got %d+$", function()
            return op(table.unpack(list, 1, count))
          end)
        end
      end)

      it("takes other shapes and dtypes or says which", function()
        for i = 1, operands do
          local x = operand(row, given, i)
          for _, shape in ipairs(other_shapes(x)) do
            both_ways(name, op, with_operand(row, given, i,
              ipu.broadcast_to(ipu.cast(0, x.dtype), shape)), function(who, ...)
              local text = refused(who, ...)
              assert(not text or text:find("[%d%[]"), text)
            end)
          end
          for _, dtype in ipairs {"float64", "float16", "int8", "int64", "bool"} do
            both_ways(name, op, with_operand(row, given, i, ipu.cast(x, dtype)), function(who, ...)
              local text = refused(who, ...)
              assert(not text or text:find("bool") or text:find("int") or text:find("float")
                or text:find("%d"), text)
            end)
          end
        end
      end)

      it("refuses attributes of wrong types, and extreme ones in words", function()
        for _, attribute in ipairs(row.attributes) do
          local function call(value)
            local list, named = copied(positional), {}
            for key, old in pairs(attributes or {}) do named[key] = old end
            named[attribute.name] = value
            list[#list + 1] = named
            return function() return op(table.unpack(list)) end
          end
          for _, value in ipairs(wrong[attribute.type] or {}) do
            must_refuse(name, escaped(attribute.name), call(value))
          end
          for _, value in ipairs(extreme[attribute.type] or {}) do refused(name, call(value)) end
        end
      end)
    end)
  end
end
