-- The kinds of values that calls return, for help() and docs/reference/api.md: tensors and
-- variables, which C makes, and tables. A row is {name, sentence, fields, methods}. A field is
-- {name, type, meaning}, a method {call, type of its result, sentence, notes}. Notes are written as
-- in docstrings, so their samples are run.
return {
  {"Tensor", "The result of `ipu.tensor` and of every op. Its numbers don't change. `t[i]` is "
    .. "the i-th slice along the first axis, from 1 (nil after the last). `#t` is the first "
    .. "extent. `+ - * / // % ^` are the ops add, sub, mul, div, floordiv, mod and pow. Every op "
    .. "that takes a tensor first is a method. `sum`, `mean`, "
    .. "`max`, `min`, `prod`, `variance`, `std`, `logsumexp`, `any` and `all` are short names of "
    .. "the methods that reduce: `x:sum(axis)` is `ipu.reduce_sum(x, axis)`. In a traced function "
    .. "tensors are symbolic: they have types, but no numbers yet.",
    {{"shape", "integer[]", "extents; -1 for one that depends on a session's feeds"},
      {"dtype", "string"},
      {"rank", "integer", "number of axes"}, {"size", "integer", "number of elements"},
      {"T", "tensor", "with all axes in reverse"}},
    {
      {"item()", "number or boolean", "The number of a tensor that has one.",
        {Shapes = "any of one element",
        Errors = "more elements, or none; a symbolic tensor: `x:item()`, `ipu.func(function(a) "
        .. "return a:item() end)(ipu.ones{})`"}},
      {"totable()", "number, boolean or list", "Nested lists of its numbers.",
        {Shapes = "[n, …] → n lists; [] → the number",
        Errors = "a symbolic tensor: `ipu.func(function(a) return a:totable() end)(x)`"}},
      {"tolist()", "number, boolean or list", "The same as totable, by NumPy's name.",
        {Shapes = "as totable's", Errors = "as totable's"}},
    }},
  {"Variable", "The result of `ipu.Variable`: numbers that can be assigned. An op that takes a "
    .. "tensor takes a variable, too, and reads its value. It has the methods of tensors and "
    .. "`T`. `v[i]` is a row of its value.",
    {{"name", "string"}, {"shape", "integer[]"}, {"dtype", "string"}, {"rank", "integer"},
      {"size", "integer", "number of elements"},
      {"nbytes", "integer", "bytes of its value"}, {"trainable", "boolean", "may be set"},
      {"initialized", "boolean",
        "false for one of a session's graph whose initializer has not run"},
      {"version", "integer", "grows with each assignment"}},
    {
      {"assign(value)", "tensor", "Sets it, now or each time that the traced function runs; gives "
        .. "the new value.", {
        Shapes = "value as the variable; a number or lists are converted",
        Errors = "another dtype or shape: `v:assign(x)`"}},
      {"assign_add(value)", "tensor", "Adds to it.",
        {Shapes = "value broadcasts to the variable", Errors = "as assign's: `v:assign_add(x)`"}},
      {"assign_sub(value)", "tensor", "Subtracts from it.",
        {Shapes = "value broadcasts to the variable", Errors = "as assign's: `v:assign_sub(x)`"}},
      {"read_value()", "tensor", "Its value as a tensor, which later assignments don't change; "
        .. "symbolic in a traced function.",
        {Shapes = "as the variable: `v:read_value()` → [3]",
          Errors = "a variable of a session's graph that has no value yet"}},
      {"item()", "number or boolean", "Its number, if it has one.",
        {Shapes = "any of one element", Errors = "more elements, or none: `v:item()`"}},
      {"totable()", "number, boolean or list", "Nested lists of its numbers.",
        {Shapes = "[n, …] → n lists; [] → the number"}},
      {"tolist()", "number, boolean or list", "The same as totable, by NumPy's name.",
        {Shapes = "as totable's"}},
    }},
  {"Scope", "A scope is open until it is closed: `local _ <close> = scope`. `scope(f)` calls f "
    .. "inside of it, and returns f's results.",
    {{"label", "string", "its name in messages"}}, {}},
  {"Operation", "A node without a value, which a session runs when it is fetched.",
    {{"name", "string"}}, {}},
  {"Iterator", "The result of `dataset:iterator()`.",
    {{"element_spec", "table", "dtype and shape of each component, in the elements' structure"}},
    {
      {"next()", "any", "The next element; several values if elements are several. On the host "
        .. "nothing at the end; in a strategy only "
        .. "inside of compiled functions, where the end is an error.",
        {Shapes = "of the elements",
        Errors =
        "in a strategy, outside of a compiled function; beyond the end of a BufferDataset"}},
      {"close()", nil, "On the host: gives back its threads and buffers; there are no more "
        .. "elements then.", {}},
    }},
  {"Timetable", "The result of `ipu.timetable`. As text it is a drawing of stages by time steps. A "
    .. "digit is a micro-batch, a point an idle slot.",
    "lua/ipulua/pipeline/timetable.lua", {}},
  {"LastError", "The result of `ipu.last_error()`.", "lua/ipulua/base/blame.lua", {}},
}
