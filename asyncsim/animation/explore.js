// The explorable: sliders, pictures, challenges and the lines of Python.

const $ = (id) => document.getElementById(id);
const SECONDS = 100, COPIES = 16, MOST = 3000, INSTANT = 51, OPENING = 0.12;
const NAMES = { downpour: "DOWNPOUR", gem: "GEM", sync: "synchronous", kasync: "K-async" };
const LIGHT = { downpour: "#d55e00", gem: "#0072b2", sync: "#009e73", kasync: "#a6518a" };
const DARK = { downpour: "#f08a3c", gem: "#4fa9e0", sync: "#35c49a", kasync: "#e3a0c4" };
const SURFACES = {
  quadratic: { h: 10, start: [-1.8, 1.6], least: [0, 0], window: [-2.4, 2.4, -2.1, 2.1],
    height: (x, y) => 5 * x * x + y * y / 2, slope: (p, i) => (i ? p[1] : 10 * p[0]) },
  beale: { h: 49, start: [1, -0.5], least: [3, 0.5], window: [-0.4, 4.4, -1.2, 1.4],
    height: (x, y) => (1.5 - x + x * y) ** 2 + (2.25 - x + x * y * y) ** 2 + (2.625 - x + x * y ** 3) ** 2,
    slope: ([x, y], i) => {
      const a = 1.5 - x + x * y, b = 2.25 - x + x * y * y, c = 2.625 - x + x * y ** 3;
      return i ? 2 * a * x + 4 * b * x * y + 6 * c * x * y * y : 2 * a * (y - 1) + 2 * b * (y * y - 1) + 2 * c * (y ** 3 - 1);
    } },
};
const SLIDERS = ["workers", "cv", "step", "rate", "k"], CHOICES = ["protocol", "surface"];
const FIELDS = ["gradient", "server", "megabytes", "gigabits"];  // of the reader's own cluster
let seed = 1, result = null, planned = false;
const met = new Set(), memory = new Map();

// The numbers

// The reader's own cluster in units of its mean compute time: the seconds of a gradient and the server's rate, or null.
// Uploads and downloads do not wait for each other, so that a commit takes the server's link for one message.
function ownCluster() {
  const [gradient, server, megabytes, gigabits] = FIELDS.map((name) => Math.max(+$(name).value, 0));
  if (!gradient) return null;
  const commit = server + (gigabits ? 8 * megabytes / gigabits : 0);  // milliseconds: 1 MB at 1 Gbit/s takes 8
  return { second: gradient / 1000, rate: commit ? +(gradient / commit).toPrecision(3) : Infinity };
}

function chosen() {
  const workers = +$("workers").value, position = +$("rate").value, own = ownCluster();
  const rate = position >= INSTANT ? Infinity : +(10 ** (position / 25)).toPrecision(2);
  return { workers, cv: +$("cv").value, step: +(10 ** +$("step").value).toPrecision(2), protocol: $("protocol").value,
    rate: own ? own.rate : rate, k: Math.min(+$("k").value, workers), seed, surface: $("surface").value,
    second: own ? own.second : 1, own: own !== null };
}

// The page's choices in its address

const POSITIONS = { step: Math.log10, rate: (rate) => 25 * Math.log10(rate) };  // of the sliders that are logarithmic

function addressOf(of) {
  const words = new URLSearchParams();
  for (const name of [...SLIDERS, ...CHOICES]) {
    const control = $(name), usual = control.defaultValue ?? control.options[0].value;
    if (control.value !== usual && !(name === "rate" && of.own)) words.set(name, of[name]);
  }
  for (const name of FIELDS) if ($(name).value) words.set(name, $(name).value);
  if (of.seed !== 1) words.set("seed", of.seed);
  return words.size ? `#${words}` : location.pathname + location.search;
}

// What a link says, as far as it is a choice of this page, and else the usual choices.
function followAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  $("controls").reset();
  [$("surface").selectedIndex, $("own").open, seed] = [0, false, 1];
  for (const name of SLIDERS) {
    const value = parseFloat(words.get(name));
    if (value > 0 || value === 0 && name === "cv") $(name).value = (POSITIONS[name] ?? Number)(value);
  }
  for (const name of CHOICES) if ([...$(name).options].some(({ value }) => value === words.get(name))) $(name).value = words.get(name);
  for (const name of FIELDS) if (words.has(name)) [$(name).value, $("own").open] = [words.get(name), true];
  if (words.get("seed") > 0) seed = Math.floor(words.get("seed"));
}

// A result that is computed again only if what it depends on has changed.
function remembered(key, make) {
  if (!memory.has(key)) {
    if (memory.size > 200) memory.clear();
    memory.set(key, make());
  }
  return memory.get(key);
}

const collected = (of, protocol) => (protocol === "sync" ? of.workers : protocol === "kasync" ? of.k : 1);
const ruleOf = (protocol) => (protocol === "gem" ? "gem" : "downpour");

function logOf(of, protocol) {
  const collect = collected(of, protocol), commits = Math.max(2000, 60 * of.workers);
  return remembered(["log", of.workers, of.cv, of.rate, of.seed, collect].join(), () => {
    const compute = draws(2 * of.seed, (next) => gammaOfMeanOne(of.cv, next));
    const service = draws(2 * of.seed + 1, (next) => (of.rate === Infinity ? 0 : exponential(next) / of.rate));
    return schedule(of.workers, collect, compute, service, commits, SECONDS);
  });
}

const TIMES = Array.from({ length: 81 }, (_, i) => 10 ** (i / 40));  // 1 s to 100 s
const NOISE = (() => { const next = generator(99); return Float64Array.from({ length: 8192 }, () => normal(next)); })();

// The mean squared distance to the minimum at `TIMES`, of copies that differ in the noise of their gradients.
function errorCurve(of, protocol) {
  const log = logOf(of, protocol), next = generator(of.seed), values = [];
  const offsets = Uint16Array.from({ length: 4096 }, () => next() * 8000);
  const slope = (x, i, commit) => x[i] + NOISE[(offsets[commit & 4095] + 31 * (commit >> 12) + i) & 8191];
  let last = 1;
  replay(log, of.workers, ruleOf(protocol), of.step, slope, Array(COPIES).fill(1), (theta, i) => {
    while (values.length < TIMES.length && log.time[i] > TIMES[values.length]) values.push(last);
    last = theta.reduce((sum, x) => sum + x * x, 0) / COPIES;
    return values.length === TIMES.length || !(last < 1e30);
  });
  while (values.length < TIMES.length) values.push(last < 1e30 ? last : Infinity);
  return values;
}

function distances(log, of) {
  const points = [1];
  replay(log, of.workers, ruleOf(of.protocol), of.step, (x) => x[0], [1], (theta) => {
    points.push(Math.abs(theta[0]));
    return points.length > 1500 || !(points.at(-1) < 1e12);
  });
  return points;
}

function pathOf(log, of) {
  const surface = SURFACES[of.surface], points = [surface.start];
  replay(log, of.workers, ruleOf(of.protocol), of.step / surface.h, surface.slope, surface.start, (theta) => {
    points.push([theta[0], theta[1]]);
    return points.length > MOST || !(Math.abs(theta[0]) + Math.abs(theta[1]) < 1e3);
  });
  return points;
}

function compute() {
  const of = chosen(), { workers: n, cv } = of, log = logOf(of, of.protocol), asynchronous = collected(of, of.protocol) === 1;
  const counted = histogram(log, 2 * n), size = Math.max(12, counted.shares.length, 3 * n);
  const outline = asynchronous && of.rate === Infinity ? remembered(["pmf", n, cv, size].join(), () => stalenessPmf(n, cv, size)) : null;
  const excerpt = Object.fromEntries(["worker", "closes"].map((name) => [name, log[name].slice(0, Math.max(MOST, 20 * n))]));
  const rule = ruleOf(of.protocol), key = [n, cv, of.rate, of.seed, collected(of, of.protocol), rule].join();
  const limit = remembered(["limit", key].join(), () => scheduleLimit(excerpt, n, rule));
  const rise = growth(excerpt, n, rule, of.step);
  const predicted = of.protocol === "sync" ? 2 : of.protocol === "kasync" ? (cv === 1 || of.k === n ? kAsyncLimit(n, of.k) : null) :
    of.protocol === "downpour" && of.rate === Infinity ? stabilityLimit(n, cv) : null;
  const errors = Object.fromEntries(Object.keys(NAMES).map((name) => [name,
    remembered(["error", n, cv, of.rate, of.seed, of.step, name, of.k].join(), () => errorCurve(of, name))]));
  errors.over = remembered(["over", n, cv, of.rate, of.seed, of.step].join(), () => errorCurve({ ...of, step: of.step / n }, "downpour"));
  return { ...of, log, shares: counted.shares, mean: counted.mean, expected: n / collected(of, of.protocol) - 1, outline, limit,
    predicted, rise, stable: rise < 0, distances: distances(log, of), path: pathOf(log, of), errors,
    measured: log.time.length / log.time.at(-1), throughput: throughput(n, of.rate), knee: knee(of.rate) };
}

// The challenges

function judge() {
  const { workers, mean, stable, step, errors } = result, early = TIMES.indexOf(10);
  const now = [workers === 12 && Math.abs(mean - 5) < 0.1, workers === 40 && step === OPENING && stable,
    workers === 16 && step === OPENING && Math.abs(errors.sync[early] / errors.over[early] - 1) < 0.2];
  now.forEach((done, i) => {
    if (!done || met.has(i)) return;
    met.add(i);
    const item = $(`challenge-${i + 1}`);
    item.className = "met";
    item.querySelector(".mark").textContent = "☑";
    item.querySelector(".done").textContent = "Done.";
  });
}

// The lines of Python

function python() {
  const { workers, cv, step, rate, protocol, k, second, seed: first } = result, mean = second === 1 ? "1.0" : second;
  const law = cv ? `Gamma(mean=${mean}, cv=${cv})` : `Constant(${mean})`;
  const server = rate === Infinity ? "" : `    server=asim.Server(service=asim.delays.Exponential(${mean} / ${rate})),\n`;
  const named = { sync: "Synchronous()", kasync: `KAsync(${k})` }[protocol];
  const how = named ? `    protocol=asim.protocols.${named},\n` : "";
  const rule = protocol === "gem" ? "GEM" : "Downpour";
  return "import asyncsim as asim\n\n" +
    `cluster = asim.Cluster(\n    workers=${workers},\n    compute=asim.delays.${law},\n${server}${how})\n` +
    `trace = asim.simulate(cluster, commits=${Math.max(2000, 60 * workers)}, seed=${first})\n` +
    "workload = asim.workloads.Quadratic([1.0], noise=1.0)\n" +
    `run = asim.replay(trace, asim.rules.${rule}(${step}), workload)\n` +
    `print("mean staleness", trace.staleness.mean())\nprint("parameters at the end", run.central["x"])\n`;
}

// The pictures

const dark = () => document.body.classList.contains("dark");
const ink = () => (dark() ? "#e8ecf1" : "#1b1f24");
const soft = () => (dark() ? "#98a2b0" : "#6b7280");
const faint = () => (dark() ? "#2a323d" : "#e2e5ea");
const alarm = () => (dark() ? "#ff6b57" : "#c8321f");
const colorOf = (name) => (dark() ? DARK : LIGHT)[name];
const short = (value) => {
  const size = Math.abs(value);
  if (value === Infinity) return "∞";
  return size >= 1e5 || (size && size < 1e-3) ? value.toExponential(1).replace(".0e", "e").replace("e+", "e") : String(+value.toPrecision(3));
};

function pen(id) {
  const canvas = $(id), scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const on = canvas.getContext("2d");
  on.scale(scale, scale);
  return [on, width, height];
}

function line(on, points, color, width = 1.5, dash = []) {
  on.strokeStyle = color;
  on.lineWidth = width;
  on.setLineDash(dash);
  on.beginPath();
  points.forEach(([x, y], i) => (i ? on.lineTo(x, y) : on.moveTo(x, y)));
  on.stroke();
  on.setLineDash([]);
}

function say(on, text, x, y, { color = soft(), align = "left", size = 11 } = {}) {
  on.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  on.textAlign = align;
  on.fillStyle = color;
  on.fillText(text, x, y);
}

// Axes with ticks: returns the two scales, which keep values inside the frame.
function axes(on, width, height, { x, y, xName, yName, top = 8, bottom = 30, logX = false, logY = false, xTicks, yTicks }) {
  const left = 42, right = 10, down = height - bottom, mapped = (log, v) => (log ? Math.log10(Math.max(v, 1e-300)) : v);
  const place = (log, [a, b], from, to) => (v) => {
    const share = (mapped(log, v) - mapped(log, a)) / (mapped(log, b) - mapped(log, a));
    return from + (to - from) * Math.min(Math.max(share, 0), 1);
  };
  const px = place(logX, x, left, width - right), py = place(logY, y, down, top);
  line(on, [[left, top], [left, down], [width - right, down]], faint(), 1);
  for (const tick of xTicks) say(on, short(tick), Math.min(px(tick), width - 14), down + 13, { align: "center" });
  for (const tick of yTicks || []) say(on, short(tick), left - 5, py(tick) + 4, { align: "right" });
  say(on, xName, (left + width - right) / 2, down + 26, { align: "center" });
  say(on, yName, left + 5, top + 8);
  return [px, py];
}

function nice(most, count) {
  const raw = most / count, ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * ten >= raw) * ten;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => +(i * step).toPrecision(3));
}

// Pictures count in mean compute times, which are seconds unless the reader's gradients take another time.
const timeName = () => (result.own ? "compute times" : "seconds");

function drawStaleness() {
  const [on, width, height] = pen("staleness"), { shares, outline, mean, workers, expected, protocol } = result;
  const last = Math.max(8, 3 * workers), spike = outline ? Math.max(...outline) : 0, most = Math.max(...shares, 0.02);
  const top = 1.1 * Math.max(most, Math.min(spike, most * 1.3));
  const [px, py] = axes(on, width, height, { x: [-0.5, last], y: [0, top], xName: "staleness, in steps",
    yName: "share of commits", xTicks: nice(last, 6), yTicks: nice(top, 3) });
  const bar = Math.max(px(1) - px(0) - 1, 1);
  on.fillStyle = colorOf(protocol);
  shares.forEach((share, k) => { if (k <= last) on.fillRect(px(k) - bar / 2, py(share), bar, py(0) - py(share)); });
  if (outline) line(on, outline.slice(0, last + 1).map((share, k) => [px(k), py(share)]), ink(), 1.5);
  line(on, [[px(mean), py(0)], [px(mean), py(top) + 14]], alarm(), 1.5, [5, 4]); // below the name of the axis
  say(on, `mean ${mean.toFixed(1)}`, px(mean) + 5, py(top) + 24, { color: alarm(), size: 12 });
  const formula = protocol === "sync" ? "0" : protocol === "kasync" ? `n/K − 1 = ${short(expected)}` : `n − 1 = ${workers - 1}`;
  $("staleness-words").textContent = `Measured mean: ${mean.toFixed(2)}. Predicted: ${formula}.` +
    (outline || protocol === "sync" || protocol === "kasync" ? "" : " The line holds for a server without a limit.");
}

function drawStability() {
  const [on, width, height] = pen("stability"), { limit, predicted, step, stable, distances: points, rise, protocol, workers } = result;
  const [px, py] = axes(on, width, height, { x: [0, Math.max(points.length - 1, 60)], y: [1e-4, 1e4], logY: true, bottom: 88,
    xName: "steps of the server", yName: "distance to the minimum", xTicks: nice(Math.max(points.length - 1, 60), 5), yTicks: [1e-4, 1, 1e4] });
  line(on, points.map((value, i) => [px(i), py(value)]), stable ? colorOf(protocol) : alarm(), 1.5);
  const at = (value) => 42 + (width - 52) * Math.min(Math.max(Math.log10(value / 0.005) / Math.log10(2 / 0.005), 0), 1), y = height - 42;
  on.fillStyle = colorOf("sync");
  on.fillRect(at(0.005), y, at(limit) - at(0.005), 14);
  on.fillStyle = alarm();
  on.fillRect(at(limit), y, at(2) - at(limit), 14);
  const mark = (value, text, color) => {
    line(on, [[at(value), y - 5], [at(value), y + 19]], color, 2.5);
    say(on, text, Math.min(Math.max(at(value), 70), width - 50), y - 8, { align: "center", color });
  };
  for (const tick of [0.005, 0.02, 0.1, 0.5, 2]) say(on, short(tick), at(tick), y + 32, { align: "center" });
  say(on, "η·h", 8, y + 11);
  mark(step, `η·h = ${short(step)}`, ink());
  if (predicted) line(on, [[at(predicted), y - 5], [at(predicted), y + 19]], ink(), 2, [3, 2]);
  const theory = predicted ? `Predicted limit (dashed): ${short(predicted)}.` : "Theory has no limit for this choice.";
  $("stability-words").textContent = `${stable ? "Stable" : "Unstable"}: ${workers} commits change the distance by a factor of ${short(Math.exp(rise * workers))}. ` +
    `${theory} Limit of this schedule: ${limit >= 8 ? "above 8" : short(limit)}.`;
}

function drawError() {
  const [on, width, height] = pen("error"), { errors, protocol } = result;
  const [px, py] = axes(on, width, height, { x: [1, SECONDS], y: [1e-3, 10], logX: true, logY: true, xName: timeName(),
    yName: "mean squared error", top: 42, xTicks: [1, 3, 10, 30, 100], yTicks: [1e-3, 1e-2, 0.1, 1, 10] });
  const points = (name) => errors[name].map((value, t) => [px(TIMES[t]), py(value)]);
  line(on, [[px(10), py(1e-3)], [px(10), py(10)]], faint(), 1, [4, 4]);
  Object.keys(NAMES).forEach((name, i) => {
    line(on, points(name), colorOf(name), name === protocol ? 3.5 : 1.5);
    say(on, NAMES[name], 44 + (width - 50) * [0, 0.32, 0.5, 0.81][i], 14, { color: colorOf(name), size: 12 });
  });
  line(on, points("over"), colorOf("downpour"), 2, [5, 4]);
  say(on, "DOWNPOUR at η/n (dashed)", 44, 30, { color: colorOf("downpour"), size: 12 });
  const at = (t) => `DOWNPOUR ${short(errors.downpour[t])}, at η/n ${short(errors.over[t])}, synchronous ${short(errors.sync[t])}.`;
  $("error-words").textContent = `At 10 ${timeName()}: ${at(40)} At 100: ${at(80)}`;
}

function drawThroughput() {
  const [on, width, height] = pen("throughput"), { rate, workers, measured, knee: bend, protocol, throughput: predicted } = result;
  const counts = Array.from({ length: 64 }, (_, i) => i + 1), top = 1.15 * Math.max(throughput(64, rate), measured);
  const [px, py] = axes(on, width, height, { x: [0, 64], y: [0, top], xName: "workers n", yName: result.own ? "commits per compute time" : "commits per second",
    xTicks: [1, 16, 32, 48, 64], yTicks: nice(top, 4) });
  if (bend <= 64) {
    line(on, [[px(0), py(rate)], [px(64), py(rate)]], soft(), 1, [3, 4]);
    line(on, [[px(bend), py(0)], [px(bend), py(top)]], soft(), 1, [3, 4]);
    say(on, `knee ${short(bend)}`, px(bend) + (bend < 45 ? 5 : -5), py(0) - 6, { align: bend < 45 ? "left" : "right" });
  }
  line(on, counts.map((n) => [px(n), py(throughput(n, rate))]), ink(), 1.5);
  on.fillStyle = colorOf(protocol);
  on.beginPath();
  on.arc(px(workers), py(measured), 5.5, 0, 7);
  on.fill();
  $("throughput-words").textContent = `Measured: ${short(measured)} commits per ${result.own ? "compute time" : "second"}. Predicted without waiting for each other: ${short(predicted)}.`;
}

function drawPath() {
  const [on, width, height] = pen("path"), surface = SURFACES[result.surface], [x0, x1, y0, y1] = surface.window;
  const columns = 96, rows = 64, low = dark() ? [16, 26, 38] : [250, 252, 254], high = dark() ? [58, 80, 104] : [176, 196, 216];
  for (let i = 0; i < columns; i++) for (let j = 0; j < rows; j++) {
    const x = x0 + (x1 - x0) * (i + 0.5) / columns, y = y1 - (y1 - y0) * (j + 0.5) / rows;
    const share = Math.min(Math.max(Math.floor(2 * Math.log10(surface.height(x, y) + 1e-9) + 4) / 9, 0), 1);
    on.fillStyle = `rgb(${low.map((value, c) => Math.round(value + (high[c] - value) * share)).join()})`;
    on.fillRect(i * width / columns, j * height / rows, width / columns + 1, height / rows + 1);
  }
  const px = (x) => (x - x0) / (x1 - x0) * width, py = (y) => (y1 - y) / (y1 - y0) * height;
  const at = ([x, y]) => [Math.min(Math.max(px(x), -1e4), 1e4), Math.min(Math.max(py(y), -1e4), 1e4)];
  line(on, result.path.map(at), colorOf(result.protocol), 1.5);
  const [cx, cy] = at(surface.least), [sx, sy] = at(surface.start), [ex, ey] = at(result.path.at(-1));
  line(on, [[cx - 6, cy], [cx + 6, cy]], ink(), 2);
  line(on, [[cx, cy - 6], [cx, cy + 6]], ink(), 2);
  on.beginPath();
  on.arc(sx, sy, 5, 0, 7);
  on.strokeStyle = ink();
  on.stroke();
  on.beginPath();
  on.arc(ex, ey, 4, 0, 7);
  on.fillStyle = ink();
  on.fill();
  const end = result.path.at(-1), height2 = surface.height(end[0], end[1]);
  $("path-words").textContent = height2 < 1e4 ? `Loss after ${result.path.length - 1} steps: ${short(height2)}.` : "It leaves the picture.";
}

// The reader's own cluster, in its own units.
function ownWords() {
  const { own, second, measured, mean, limit, rate, workers } = result;
  if (!own) return $("own-words").defaultValue;
  const perSecond = measured / second, server = rate === Infinity ? "" : ` The server can apply ${short(rate / second)}.`;
  return `${workers} workers: ${short(perSecond)} commits per second, so that 1000 commits take ${short(1000 / perSecond)} s.${server} ` +
    `Mean staleness ${mean.toFixed(1)}. ` +
    (limit >= 8 ? "Every step size in reach is stable." : `Steps up to η·h = ${short(limit)} are stable; half of it is a safe start.`);
}

// The page

function show() {
  planned = false;
  $("k").max = $("workers").value;
  const of = chosen();
  $("k-label").hidden = of.protocol !== "kasync";
  $("rate").disabled = of.own;
  result = compute();
  const rate = of.rate === Infinity ? "no limit" : `${of.rate} per ${of.own ? "gradient" : "s"}`;
  const words = { workers: of.workers, cv: of.cv, step: of.step, rate, k: of.k };
  for (const name in words) {
    $(`${name}-value`).textContent = words[name];
    $(name).setAttribute("aria-valuetext", words[name]);
  }
  drawStaleness();
  drawStability();
  drawError();
  drawThroughput();
  drawPath();
  judge();
  $("own-words").value = ownWords();
  // A page inside of another document may have no address of its own.
  try { history.replaceState(null, "", addressOf(of)); } catch {}
  $("python").value = python();
  const { log, ...plain } = result;
  window.explore = { ...plain, commits: log.time.length, met: [...met], python: $("python").value };
}

function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(show);
}

function turn(on) {
  document.body.classList.toggle("dark", on);
  plan();
}

for (const name of [...SLIDERS, ...CHOICES, ...FIELDS]) $(name).addEventListener("input", plan);
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("seed").addEventListener("click", () => { seed++; plan(); });
$("theme").addEventListener("click", () => turn());
addEventListener("keydown", (event) => {
  if (event.key === "d" && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.tagName !== "SELECT") turn();
});
async function copy(text) {
  $("python").value = text;
  $("python").hidden = false;
  $("python").select();
  try {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = "Copied.";
  } catch {
    $("copied").textContent = document.execCommand("copy") ? "Copied." : "Select the lines and copy them.";
  }
}

$("copy").addEventListener("click", () => copy(python()));
$("link").addEventListener("click", () => copy(location.href));
addEventListener("hashchange", () => { followAddress(); plan(); });
followAddress();
addEventListener("resize", plan);
turn(isDark(turn));
