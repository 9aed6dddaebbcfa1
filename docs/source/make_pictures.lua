-- `make pictures`: the pictures of README and docs from what the command really shows. session.svg
-- is a session at the prompt, recorded on a terminal of its own and played again and again; viewers
-- that don't play show its end.

local folder <const> = "docs/images/"
local ipulua <const> = os.getenv("IPULUA") or "build/ipulua"
local columns <const>, char_width <const>, line_height <const>, margin <const> = 100, 8.4, 18, 14

local typed <const> = {
  'L = keras.layers',
  'm = keras.Sequential{L.Flatten(), L.Dense{128, activation = "relu"}, L.Dense{10}}',
  'logits = keras.losses.SparseCategoricalCrossentropy{from_logits = true}',
  'm:compile{optimizer = "adam", loss = logits, metrics = {"accuracy"}, steps_per_execution = 60}',
  'x, y = keras.datasets.mnist.load_data()',
  'h = m:fit{x = ipu.cast(x, "float32") / 255, y = y, batch_size = 50, epochs = 2}',
  'm:summary()',
  'm:predict_on_batch(ipu.cast(x:slice({0, 0, 0}, {3, 28, 28}), "float32") / 255):argmax{axis = 1}',
  '?ipu.matmul',
  'ipu.timetable{schedule = "Interleaved", device_mapping = {0, 1, 2}, count = 6}',
}

-- ------------------------------------------------ recording

local function write_file(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

-- What the terminal showed, escape sequences and all.
local function record()
  local steps, prompt = {"size 60 " .. columns}, [[expect >\x1b[0m ]]
  for _, line in ipairs(typed) do
    steps[#steps + 1] = prompt
    steps[#steps + 1] = "send " .. line .. [[\n]]
  end
  steps[#steps + 1] = prompt
  steps[#steps + 1] = [[send \x04]]
  local input = os.tmpname()
  write_file(input, table.concat(steps, "\n"))
  local pipe <close> =
    assert(io.popen("env -u NO_COLOR TERM=xterm LC_ALL=C.UTF-8 XDG_STATE_HOME=/nonexistent python3 "
      .. "spec/support/terminal.py "
    .. ipulua .. " --seed 1 <" .. input))
  local shown = pipe:read("a")
  os.remove(input)
  return (shown:gsub("%^D.*$", ""))
end

-- ------------------------------------------------ a terminal

local colours <const> = {[31] = "#f87171", [32] = "#4ade80", [37] = "#6b7280"}

-- Rows of cells {character, style}; each state that a row was in, with the time from which on it
-- was.
local screen = {rows = {{}}, row = 1, column = 1, style = "", states = {}, time = 0}

local function row_state(row)
  local runs, at = {}, 1
  while row[at] do
    local first, text = at, {}
    while row[at] and row[at][2] == row[first][2] do
      text[#text + 1] = row[at][1]
      at = at + 1
    end
    runs[#runs + 1] = {first, table.concat(text), row[first][2], at - first}
  end
  return runs
end

local function same(a, b)
  if #a ~= #b then return false end
  for i, run in ipairs(a) do
    for k = 1, 3 do
      if run[k] ~= b[i][k] then return false end
    end
  end
  return true
end

local function note(index)
  local states = screen.states[index] or {}
  screen.states[index] = states
  local now = row_state(screen.rows[index] or {})
  local last = states[#states]
  if last and same(last.runs, now) then return end
  if last and screen.time - last.from < 1e-9 then last.runs = now
  else states[#states + 1] = {from = screen.time, runs = now} end
end

local function put(c)
  if screen.column > columns then
    note(screen.row)
    screen.row, screen.column = screen.row + 1, 1
  end
  local row = screen.rows[screen.row] or {}
  screen.rows[screen.row] = row
  for i = #row + 1, screen.column - 1 do row[i] = {" ", ""} end
  row[screen.column] = {c, screen.style}
  screen.column = screen.column + 1
end

local function select_style(codes)
  for code in (codes == "" and "0" or codes):gmatch("%d+") do
    local n = tonumber(code)
    if n == 0 then screen.style = ""
    elseif n == 1 then screen.style = screen.style .. ' font-weight="bold"'
    elseif colours[n] then screen.style = screen.style .. ' fill="' .. colours[n] .. '"' end
  end
end

-- Output takes no time to speak of, a drawn bar some, typing more: about as a person would see it.
local function play(shown)
  local typing, behind_bar = false, false
  local at = 1
  while at <= #shown do
    local codes, after = shown:match("^\27%[([%d;]*)m()", at)
    local c = shown:match("^" .. utf8.charpattern, at)
    if codes then
      select_style(codes)
      if shown:sub(1, after - 1):find("> ?\27%[0m$") then
        typing = true
        screen.time = screen.time + 1
      end
      at = after
    elseif c == "\r" and shown:sub(at + 1, at + 1) ~= "\n" then
      note(screen.row)
      screen.time, screen.column, behind_bar = screen.time + 0.12, 1, true
      at = at + 1
    elseif c == "\n" then
      note(screen.row)
      screen.time = screen.time + (typing and 0.35 or behind_bar and 0.2 or 0.03)
      screen.row, screen.column, typing, behind_bar = screen.row + 1, 1, false, false
      screen.rows[screen.row] = screen.rows[screen.row] or {}
      at = at + 1
    else
      if c == "\b" then screen.column = screen.column - 1
      elseif c >= " " then put(c) end
      at = at + #c
      if typing and screen.column % 6 == 0 then
        note(screen.row)
        screen.time = screen.time + 0.05
      end
    end
  end
  note(screen.row)
end

-- ------------------------------------------------ drawing

local function escape(text) return (text:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;")) end

local function draw_runs(runs, y)
  local out = {}
  for _, run in ipairs(runs) do
    if run[2]:find("%S") then
      out[#out + 1] = string.format('<text x="%.1f" y="%d" textLength="%.1f" '
        .. 'lengthAdjust="spacingAndGlyphs" xml:space="preserve"%s>%s</text>',
        margin + (run[1] - 1) * char_width, y, run[4] * char_width, run[3], escape(run[2]))
    end
  end
  return table.concat(out)
end

-- Hidden from the loop's begin, visible from `from` to `to`; what stays to the end is visible to
-- viewers that don't play, too.
local function draw_state(state, to, y)
  local content = draw_runs(state.runs, y)
  if content == "" then return nil end
  if not to then
    return string.format('<g>%s<set attributeName="visibility" to="hidden" begin="loop.begin" '
      .. 'dur="%.2fs"/></g>', content,
      math.max(state.from, 0.01))
  end
  return string.format('<g visibility="hidden">%s<set attributeName="visibility" to="visible" '
    .. 'begin="loop.begin+%.2fs" dur="%.2fs"/></g>',
    content, state.from, to - state.from)
end

local function draw_session(path)
  play(record())
  local rows = #screen.rows
  while not screen.states[rows] or #screen.states[rows][#screen.states[rows]].runs == 0 do
    rows = rows - 1
  end
  local width, height = math.floor(2 * margin + columns * char_width),
    2 * margin + rows * line_height
  local out = {
    string.format('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
      .. 'height="%d" font-size="14" fill="#e5e7eb" '
      .. 'font-family="ui-monospace, SFMono-Regular, Menlo, \'DejaVu Sans Mono\', monospace">',
      width, height,
      width, height),
    string.format('<rect width="%d" height="%d" rx="8" fill="#111827"><animate id="loop" '
      .. 'attributeName="opacity" from="1" to="1" '
      .. 'begin="0s;loop.end" dur="%.1fs"/></rect>', width, height, screen.time + 6),
  }
  for index = 1, rows do
    local states = screen.states[index] or {}
    for i, state in ipairs(states) do
      out[#out + 1] = draw_state(state, states[i + 1] and states[i + 1].from,
        margin + index * line_height - 5)
    end
  end
  out[#out + 1] = "</svg>\n"
  write_file(path, table.concat(out, "\n"))
end

-- ------------------------------------------------ the report

local function run(command)
  assert(os.execute(command), command)
end

-- The page of a profile, as a browser shows it; wants chromium.
local function draw_report(path)
  if not os.execute("command -v chromium >/dev/null") then
    return print("without chromium " .. path .. " stays as it is")
  end
  local scratch = os.tmpname()
  os.remove(scratch)
  run(ipulua .. " --estimate --profile " .. scratch
    .. " docs/source/four_stages.lua >/dev/null 2>&1")
  run("cp $(ls -d " .. scratch .. "/*/ | head -1)index.html " .. scratch .. "/page.html")
  run("chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars "
    .. "--virtual-time-budget=5000 --window-size=1200,1636 "
    .. "--screenshot=" .. path .. " file://" .. scratch .. "/page.html >/dev/null 2>&1")
  run("rm -rf " .. scratch)
end

draw_session(folder .. "session.svg")
run("LC_ALL=C.UTF-8 " .. ipulua .. " examples/pipelines/where_to_cut.lua --plot " .. folder
  .. "where_to_cut.svg >/dev/null")
draw_report(folder .. "report.png")
