// What the pages of asyncsim/animation share: how a film is unpacked, and how things are drawn.
"use strict";
const UNITS = 8192, SHADES = 1000; // as in _paths.py
const DOING = ["idle", "reading", "computing", "sending", "waiting", "in service", "down"];
const [IDLE, READING, COMPUTING, SENDING, WAITING, SERVICE, DOWN] = DOING.keys();
const COLORS = ["#d9dde3", "#b9c6d6", "#7d8ea3", "#b9c6d6", "#e69f00", "#8a5a00", "#4b5563"]; // as plots/style.py
const RUNS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#1b1f24", "#6b7280", "#332288", "#999933", "#882255", "#44aa99", "#aa4499"];
const RUNS_ON_DARK = ["#4fa9e0", "#f08a3c", "#35c49a", "#e3a0c4", "#8fd0f5", "#e8ecf1", "#98a2b0", "#a79df0", "#cfcf6b", "#e07fae", "#7fdccb", "#dd8fd6"];
const STALENESS = [[154, 143, 224], [214, 58, 158], [227, 18, 60]]; // fresh, as the mean, twice the mean and beyond
const $ = (id) => document.getElementById(id);

// The film

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const never = (value) => (value === null ? Infinity : value);
const column = (values, length) => (Array.isArray(values) ? values : Array(length).fill(values));
const added = (values) => { let sum = 0; return values.map((value) => (sum += value)); };

// A sorted array: how many of its values are at most `value`.
function countUpTo(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

// The film as arrays: jobs as in _film.py, and what is looked up often.
function develop(film) {
  const done = film.jobs, rest = film.rest, m = done.worker.length, k = rest.worker.length;
  const each = (values) => column(values, m), other = (values) => column(values, k).map(never);
  const jobs = { worker: [...done.worker, ...rest.worker], closes: each(done.closes) };
  const end = added(each(done.end));
  const before = (times, lasted) => each(lasted).map((ticks, j) => times[j] - ticks);
  const serve = before(end, done.serve), arrive = before(serve, done.arrive), finish = before(arrive, done.finish);
  const start = before(finish, done.start), begin = before(start, done.begin);
  const after = (times, lasted) => other(lasted).map((ticks, j) => times[j] + ticks);
  const begin2 = other(rest.begin), start2 = after(begin2, rest.start), finish2 = after(start2, rest.finish);
  const end2 = after(finish2, rest.end);
  const all = { begin: [begin, begin2], start: [start, start2], finish: [finish, finish2], arrive: [arrive, end2],
    serve: [serve, end2], end: [end, end2] };
  for (const name in all) jobs[name] = all[name].flat();
  const closed = [0, ...added(jobs.closes)];
  jobs.read = film.graph ? [...each(done.read), ...column(rest.read, k)] : [...each(done.stale).map((stale, j) => film.version + closed[j] - stale), ...column(rest.read, k)];
  const byWorker = Array.from({ length: film.workers }, () => []);
  const order = jobs.worker.map((_, j) => j).sort((a, b) =>
    jobs.begin[a] - jobs.begin[b] || (jobs.end[a] === jobs.end[b] ? 0 : jobs.end[a] - jobs.end[b]) ||
    jobs.read[a] - jobs.read[b] || a - b);
  for (const j of order) byWorker[jobs.worker[j]].push(j);
  const rows = [0];
  for (let j = 0; j < film.commits; j++) if (jobs.closes[j]) rows.push(j + 1);
  const readIndex = jobs.read.map((version) => {
    const index = Math.max(version - film.version, 0);
    return index < rows.length ? rows[index] : Infinity;
  });
  const stale = film.graph ? each(done.stale).slice(0, film.commits) : Array.from({ length: film.commits }, (_, j) => film.version + closed[j] - jobs.read[j]);
  const out = Math.max(stale.reduce((sum, value) => sum + value, 0) / Math.max(stale.length, 1), 1);
  const begins = byWorker.map((ids) => ids.map((j) => jobs.begin[j]));
  const down = Array.from({ length: film.workers }, () => []);
  for (const [worker, first, last] of film.down) down[worker].push([first, never(last)]);
  if (film.plane && film.plane.slopes) film.plane.z = added(film.plane.slopes);
  for (const run of film.runs) if (run.path) {
    run.x = added(run.path[0]);
    run.y = added(run.path[1]);
    const [left, right, bottom, top] = film.plane.window;
    film.plane.unit = [(right - left) / UNITS, (top - bottom) / UNITS];
  }
  return { ...film, jobs, closed, before: [], byWorker, begins, readIndex, stale, out, down, ticks: end.slice(0, film.commits) };
}

// Drawing

const screen = { dark: false, still: matchMedia("(prefers-reduced-motion: reduce)").matches, hot: [], chosen: -1 };
const ink = () => (screen.dark ? "#e8ecf1" : "#1b1f24");
const soft = () => (screen.dark ? "#98a2b0" : "#6b7280");
const faint = () => (screen.dark ? "#2a323d" : "#e2e5ea");
const paper = () => (screen.dark ? "#0e1218" : "#ffffff");
const alarm = () => (screen.dark ? "#ff8fd0" : "#a01f73"); // of the mean staleness
const runColor = (i) => (screen.dark ? RUNS_ON_DARK : RUNS)[i % RUNS.length];
const number = (value) => {
  const size = Math.abs(value), text = size >= 1e5 || (size && size < 1e-3) ? value.toExponential(1) : String(+value.toPrecision(3));
  return text.replace(".0e", "e").replace(/-/g, "−").replace("e+", "e");
};

// Round numbers from low to high, about `count` of them.
function ticksOf(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) ticks.push(+value.toPrecision(12));
  return ticks;
}

// Of a logarithmic axis: powers of ten, and 2 and 5 of them where there are few.
function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1; power++) {
    for (const factor of Math.log10(high / low) > 2 ? [1] : [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) ticks.push(value);
    }
  }
  return ticks.length > 1 ? ticks : ticksOf(low, high, 4);
}

function fitted(canvas) {
  const scale = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return [pen, width, height];
}

function staleColor(film, stale) {
  const share = Math.min(Math.max(stale, 0) / film.out, 2), half = Math.min(Math.floor(share), 1), rest = share - half;
  const mixed = STALENESS[half].map((from, i) => Math.round(from + (STALENESS[half + 1][i] - from) * rest));
  return `rgb(${mixed})`;
}

function dot(pen, x, y, radius, fill, line, width = 1.5) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  if (line) { pen.strokeStyle = line; pen.lineWidth = width; pen.stroke(); }
}

function stroke(pen, points, color, width, alpha = 1) {
  pen.globalAlpha = alpha;
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  pen.globalAlpha = 1;
}

// Text, squeezed to `most` pixels.
function say(pen, text, x, y, { color = ink(), size = 12, weight = "", align = "left", halo = false, most } = {}) {
  pen.font = `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`;
  pen.textAlign = align;
  if (halo) { pen.lineJoin = "round"; pen.lineWidth = 4; pen.strokeStyle = paper(); pen.strokeText(text, x, y, most); }
  pen.fillStyle = color;
  pen.fillText(text, x, y, most);
}

// A worker's name and number, or its number.
const who = (film, w) => film.names?.[w] ?? `worker ${w}`;
