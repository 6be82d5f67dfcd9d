// The page of a movie. What is where at a time follows from the film's events alone: `stateAt` is a copy of
// asyncsim/animation/_states.py, and so is `gravityAt`, and the tests compare them. Workers on a graph are in graph.js.

const NEAREST = 0.24, PUSH = 0.15, FALL = 0.3, TURN = 90, SWAY = 0.12, SWAY_JOBS = 7; // as in _states.py

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// States

const place = (film, x, y) => {
  const [left, right, bottom, top] = film.plane.window;
  return [left + (x / UNITS) * (right - left), bottom + (y / UNITS) * (top - bottom)];
};

// Where a job's gradient was taken, in units of the window; null where that is not known.
function readUnits(film, run, job) {
  const index = job < 0 ? Infinity : film.readIndex[job];
  if (index >= run.x.length) return null;
  if (!run.offsets || job >= film.jobs.closes.length) return [run.x[index], run.y[index]];
  const dx = run.offsets[0][job], dy = run.offsets[1][job];
  return dx === null || dy === null ? null : [run.x[index] + dx, run.y[index] + dy];
}

// What a run makes of a worker's gradient, if it committed now: vectors and points of the plane, seen from `since`.
function mechanismAt(film, run, state, w) {
  const job = w < 0 ? -1 : state.job[w], read = w < 0 || state.stale[w] < 0 || !run.path ? null : readUnits(film, run, job);
  if (!read || state.done >= run.x.length) return null;
  const unit = film.plane.unit, rule = run.mechanism, has = (rule?.update[0][job] ?? null) !== null;
  const since = has ? rule.since.map((axis) => axis[job]) : read;
  const from = (x, y) => [(x - since[0]) * unit[0], (y - since[1]) * unit[1]], vector = (axes) => axes.map((axis, i) => axis[job] * unit[i]);
  const first = Math.min(film.readIndex[job], state.done), path = [[0, 0]];
  for (let k = first; k <= state.done; k++) path.push(from(run.x[k], run.y[k]));
  const view = { read: from(...read), central: path.at(-1), path, update: null, proxy: null, pi: null, commit: null, recorded: null };
  if (!has) return view;
  const update = vector(rule.update);
  if (!rule.pi) {
    const lands = job < film.commits && job + 1 < run.x.length && film.jobs.closes[job];
    const commit = lands ? [(run.x[job + 1] - run.x[job]) * unit[0], (run.y[job + 1] - run.y[job]) * unit[1]] : null;
    return { ...view, update, commit };
  }
  const proxy = vector(rule.proxy);
  const pi = update.map((step, i) => {
    const raw = step ? (Math.abs(proxy[i]) - Math.abs(view.central[i])) / Math.abs(step) : 0;
    return rule.clamped ? clamp(raw, 0, 5) : raw;
  });
  return { ...view, update, proxy, pi, commit: update.map((step, i) => step * pi[i]), recorded: rule.pi.map((axis) => axis[job]) };
}

function stateAt(film, seconds) {
  const jobs = film.jobs;
  const now = clamp(seconds * film.per_second, film.start, film.stop);
  const done = countUpTo(film.ticks, now), version = film.version + film.closed[done];
  const state = { time: now / film.per_second, now, done, commits: film.row + done, version, stalest: -1,
    job: [], doing: [], read: [], stale: [], up: [], down: [], queue: [], service: [] };
  for (let w = 0; w < film.workers; w++) {
    const count = countUpTo(film.begins[w], now), job = count ? film.byWorker[w][count - 1] : -1;
    let doing = IDLE;
    if (film.down[w].some(([first, last]) => first <= now && now < last)) doing = DOWN;
    else if (job >= 0 && jobs.end[job] > now) {
      doing = READING + (jobs.start[job] <= now) + (jobs.finish[job] <= now) + (jobs.arrive[job] <= now) +
        (jobs.serve[job] <= now);
    }
    const has = job >= 0 && doing !== IDLE && doing !== DOWN;
    state.job.push(job);
    state.doing.push(doing);
    state.read.push(has ? jobs.read[job] : -1);
    const newest = film.graph ? film.graph.base[w] + countUpTo(film.graph.changes[w], now) : version;
    state.stale.push(has ? newest - jobs.read[job] : -1);
    if (has && (state.stalest < 0 || state.stale[w] > state.stale[state.stalest])) state.stalest = w;
    if (doing === SENDING) state.up.push(w);
    if (doing === READING) state.down.push(w);
    if (doing === WAITING) state.queue.push(w);
    if (doing === SERVICE) state.service.push(w);
  }
  state.queue.sort((a, b) => jobs.arrive[state.job[a]] - jobs.arrive[state.job[b]] || a - b);
  return state;
}

const smooth = (share) => { const s = clamp(share, 0, 1); return s * s * (3 - 2 * s); };

function pushed(film, now, most) {
  const push = PUSH * film.typical;
  const past = Math.min(countUpTo(film.ticks, now - push), most), last = Math.min(countUpTo(film.ticks, now), most);
  let recent = 0;
  for (let k = past; k < last; k++) if (film.jobs.closes[k]) recent += smooth((now - film.ticks[k]) / push);
  return film.closed[past] + recent;
}

function distance(film, job, now, all) {
  const before = (film.before[job] ??= countUpTo(film.ticks, film.jobs.begin[job]));
  const missed = film.version + film.closed[before] - film.jobs.read[job];
  const age = Math.max(missed + all - pushed(film, now, before), 0);
  return NEAREST + (1 - NEAREST) * (1 - Math.exp(-age / film.out));
}

function gravityAt(film, state) {
  if (film.graph) return graphAt(film, state.now);
  const now = state.now, all = pushed(film, now, film.commits), turn = (2 * Math.PI * now) / (TURN * film.typical);
  return state.job.map((job, w) => {
    let radius = NEAREST;
    if (job >= 0) {
      radius = distance(film, job, now, all);
      const at = countUpTo(film.begins[w], now) - 1, begin = film.jobs.begin[job];
      const fallen = smooth((now - begin) / (FALL * film.typical));
      if (at > 0 && fallen < 1) {
        const before = distance(film, film.byWorker[w][at - 1], begin, pushed(film, begin, film.commits));
        radius = before + (radius - before) * fallen;
      }
    }
    const sway = SWAY * Math.sin(2 * Math.PI * (now / (SWAY_JOBS * film.typical) + w * 0.37));
    const angle = (w * 2 * Math.PI) / film.workers + turn + sway;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
}

// The state as asyncsim's tests read it.
function written(film, state) {
  const { time, commits, version, stalest, up, down, queue, service, doing, read, stale } = state;
  const central = {}, places = {};
  for (const run of film.runs) if (run.path) {
    const lasts = state.done < run.x.length;
    central[run.name] = lasts ? place(film, run.x[state.done], run.y[state.done]) : null;
    places[run.name] = state.job.map((job) => {
      const units = readUnits(film, run, job);
      return units && place(film, ...units);
    });
  }
  const plain = { time, commits, version, stalest, up, down, queue, service, doing, read, stale, central, places,
    gravity: gravityAt(film, state), messages: film.graph ? messagesAt(film, state.now) : [] };
  if (screen.chosen < 0) return plain;
  const mechanism = {};
  for (const run of film.runs) mechanism[run.name] = mechanismAt(film, run, state, screen.chosen);
  return { ...plain, chosen: screen.chosen, mechanism };
}

// Drawing

// The landscape as a picture: bands of equal height, the lowest brightest, with a line between two bands.
function relief(plane, width, height) {
  const canvas = document.createElement("canvas");
  const [w, h] = [Math.max(Math.round(width), 2), Math.max(Math.round(height), 2)];
  canvas.width = w; canvas.height = h;
  const pen = canvas.getContext("2d"), image = pen.createImageData(w, h), side = plane.side, bands = 14;
  const [low, high] = screen.dark ? [[52, 78, 110], [15, 20, 28]] : [[252, 253, 254], [174, 192, 214]];
  const level = (px, py) => {
    const x = (px / (w - 1)) * (side - 1), y = (1 - py / (h - 1)) * (side - 1);
    const i = Math.min(Math.floor(x), side - 2), j = Math.min(Math.floor(y), side - 2), a = x - i, b = y - j;
    const at = j * side + i, z = plane.z;
    return ((z[at] * (1 - a) + z[at + 1] * a) * (1 - b) + (z[at + side] * (1 - a) + z[at + side + 1] * a) * b) / (SHADES + 1) * bands;
  };
  let above = [];
  for (let py = 0; py < h; py++) {
    let left = -1;
    const row = new Uint8Array(w);
    for (let px = 0; px < w; px++) {
      const band = Math.floor(level(px, py)), edge = (left >= 0 && band !== left) || (py && band !== above[px]);
      const share = band / (bands - 1), shade = edge ? (screen.dark ? 1.35 : 0.93) : 1, at = 4 * (py * w + px);
      for (let i = 0; i < 3; i++) image.data[at + i] = Math.min((low[i] + (high[i] - low[i]) * share) * shade, 255);
      image.data[at + 3] = 255;
      left = band;
      row[px] = band;
    }
    above = row;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

const reliefs = new Map();

// How panels share the stage: as many columns as make them largest.
function panels(count, width, height) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns), w = (width - 14 * (columns - 1)) / columns, h = (height - 14 * (rows - 1)) / rows;
    const size = Math.min(w, 1.35 * h) * Math.min(h, 1.35 * w);
    if (!best || size > best.size) best = { size, columns, w, h };
  }
  return Array.from({ length: count }, (_, i) => ({
    x: (i % best.columns) * (best.w + 14), y: Math.floor(i / best.columns) * (best.h + 14), w: best.w, h: best.h }));
}

// How far a message has come, between two ticks.
const share = (now, first, last) => (last === Infinity ? 0 : last > first ? (now - first) / (last - first) : 1);

function flashes(film, state) {
  const long = 0.3 * film.typical, marks = [];
  if (screen.still) return marks;
  for (let k = state.done - 1; k >= 0 && film.ticks[k] > state.now - long && marks.length < 60; k--) {
    marks.push([k, 1 - (state.now - film.ticks[k]) / long]);
  }
  return marks;
}

function arrow(pen, from, to, color, width, alpha = 1) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]], long = Math.hypot(dx, dy);
  if (long < 1.5) return;
  const head = Math.min(3.2 * width + 2, long), [ux, uy] = [dx / long, dy / long], neck = [to[0] - ux * head, to[1] - uy * head];
  stroke(pen, [from, neck], color, width, alpha);
  pen.globalAlpha = alpha;
  pen.fillStyle = color;
  pen.beginPath();
  [[to[0], to[1]], [neck[0] - uy * head * 0.5, neck[1] + ux * head * 0.5], [neck[0] + uy * head * 0.5, neck[1] - ux * head * 0.5]]
    .forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.fill();
  pen.globalAlpha = 1;
}

// A magnifier on the chosen worker: the motion since its read, its own step, the limit κ|m|, and the shortened commit.
function drawLens(pen, film, state, run, box, cx, cy) {
  const lens = mechanismAt(film, run, state, screen.chosen);
  if (!lens) return;
  const radius = Math.max(Math.min(box.w, box.h) * 0.27, 46), room = radius + 8, color = runColor(run.color), dot1 = staleColor(film, state.stale[screen.chosen]);
  const corners = [[box.x + box.w - room, box.y + box.h - room], [box.x + room, box.y + box.h - room], [box.x + box.w - room, box.y + room + 24]];
  const [lx, ly] = corners.reduce((best, corner) => (Math.hypot(corner[0] - cx, corner[1] - cy) > Math.hypot(best[0] - cx, best[1] - cy) ? corner : best));
  const ring = lens.proxy ? Math.hypot(...lens.proxy) : 0, far = lens.path.map(([x, y]) => Math.hypot(x, y));
  const size = lens.update ? Math.hypot(...lens.update) : 0, most = Math.max(ring, ...far, size, 1e-12), scale = (0.86 * radius) / most;
  const at = ([x, y]) => [lx + x * scale, ly - y * scale], plus = ([x, y], [u, v]) => [x + u, y + v];
  pen.save();
  dot(pen, lx, ly, radius, paper(), soft(), 1);
  pen.beginPath();
  pen.arc(lx, ly, radius, 0, 2 * Math.PI);
  pen.clip();
  if (ring) {
    pen.setLineDash([5, 4]);
    dot(pen, lx, ly, ring * scale, null, soft(), 1.3);
    pen.setLineDash([]);
    const [w, h] = lens.proxy.map((m) => Math.abs(m) * scale);
    pen.strokeStyle = faint();
    pen.lineWidth = 1.2;
    pen.strokeRect(lx - w, ly - h, 2 * w, 2 * h);
  }
  stroke(pen, lens.path.map(at), ink(), 1.8, 0.75);
  if (lens.update) {
    arrow(pen, at(lens.read), at(plus(lens.read, lens.update)), color, 1.5, 0.55);
    if (lens.commit) arrow(pen, at(lens.central), at(plus(lens.central, lens.commit)), color, 3.4);
  }
  dot(pen, ...at(lens.read), 4.5, dot1, paper(), 1.2);
  dot(pen, ...at(lens.central), 4.5, ink(), paper(), 1.2);
  if (lens.pi) say(pen, `π = ${lens.pi.map(number).join(", ")}`, lx, ly + 0.78 * radius, { size: radius < 70 ? 10.5 : 11.5, weight: "600", align: "center", halo: true, most: 1.15 * radius });
  if (ring) say(pen, "κ|m|", lx, Math.max(ly - ring * scale + 12, ly - radius + 14), { size: 10.5, color: soft(), align: "center", halo: true });
  pen.restore();
}

function drawLandscape(pen, film, state, run, box) {
  const toX = (x) => box.x + (x / UNITS) * box.w, toY = (y) => box.y + box.h - (y / UNITS) * box.h;
  pen.save();
  pen.beginPath();
  pen.roundRect(box.x, box.y, box.w, box.h, 8);
  pen.clip();
  if (film.plane.z) {
    const key = `${Math.round(box.w)} ${Math.round(box.h)} ${screen.dark}`;
    if (!reliefs.has(key)) { if (reliefs.size > 4) reliefs.clear(); reliefs.set(key, relief(film.plane, box.w, box.h)); }
    pen.drawImage(reliefs.get(key), box.x, box.y, box.w, box.h);
  } else { pen.fillStyle = faint(); pen.fillRect(box.x, box.y, box.w, box.h); }
  for (const [x, y] of film.plane.minima) {
    const u = toX(x), v = toY(y);
    stroke(pen, [[u - 6, v], [u + 6, v]], ink(), 1.5, 0.7);
    stroke(pen, [[u, v - 6], [u, v + 6]], ink(), 1.5, 0.7);
  }
  const last = Math.min(state.done, run.x.length - 1), path = [];
  for (let k = 0; k <= last; k++) path.push([toX(run.x[k]), toY(run.y[k])]);
  pen.lineJoin = "round";
  stroke(pen, path, ink(), 1, 0.28);
  const tail = Math.max(12, Math.round(film.workers * 1.5));
  for (let part = 0; part < 6; part++) {
    const from = Math.max(0, last - Math.round((tail * (6 - part)) / 6));
    stroke(pen, path.slice(from), ink(), 1.6, 0.16);
  }
  const gone = state.done >= run.x.length, [cx, cy] = path[last];
  const hot = [], named = [];
  const order = state.job.map((_, w) => w).sort((a, b) => state.stale[a] - state.stale[b]);
  for (const w of order) {
    const units = readUnits(film, run, state.job[w]);
    if (!units) continue;
    let [x, y] = [toX(units[0]), toY(units[1])];
    const at = countUpTo(film.begins[w], state.now) - 1;
    if (!screen.still && at > 0) { // it glides from where it read before
      const from = readUnits(film, run, film.byWorker[w][at - 1]);
      const moved = smooth((state.now - film.jobs.begin[state.job[w]]) / (0.2 * film.typical));
      if (from) [x, y] = [toX(from[0]) + (x - toX(from[0])) * moved, toY(from[1]) + (y - toY(from[1])) * moved];
    }
    hot.push([w, x, y]);
    const off = state.doing[w] === DOWN || state.doing[w] === IDLE, color = off ? soft() : staleColor(film, state.stale[w]);
    const chosen = w === screen.chosen;
    if (!off && !gone) stroke(pen, [[x, y], [cx, cy]], color, chosen ? 2.4 : 1.3, chosen ? 1 : 0.5);
    dot(pen, x, y, chosen ? 6.5 : 4.3, color, paper(), 1.1);
    if (w === state.stalest || chosen) {
      dot(pen, x, y, 8.5, null, color, 1.8);
      const far = Math.hypot(x - cx, y - cy) || 1; // its number: on the side where the centre is not
      const u = x + (17 * (x - cx)) / far, v = y + (17 * (y - cy)) / far + 4;
      const near = named.find(([, a, b]) => Math.abs(a - u) < 20 && Math.abs(b - v) < 14);
      named.push([w, u, near ? near[2] + (v < near[2] ? -14 : 14) : v]);
    }
    const j = state.job[w], jobs = film.jobs, up = state.doing[w] === SENDING;
    if (!gone && (up || state.doing[w] === READING)) {
      const come = up ? share(state.now, jobs.finish[j], jobs.arrive[j]) : 1 - share(state.now, jobs.begin[j], jobs.start[j]);
      dot(pen, x + (cx - x) * come, y + (cy - y) * come, 2.8, up ? color : paper(), color, 1.2);
    }
  }
  const job = screen.chosen >= 0 && state.stale[screen.chosen] >= 0 ? state.job[screen.chosen] : -1;
  if (job >= 0 && film.readIndex[job] < last) stroke(pen, path.slice(film.readIndex[job]), runColor(run.color), 2.6, 0.9);
  for (const [k, strength] of flashes(film, state)) {
    if (k + 1 >= run.x.length) continue;
    const from = [toX(run.x[k]), toY(run.y[k])], to = [toX(run.x[k + 1]), toY(run.y[k + 1])];
    stroke(pen, [from, to], staleColor(film, film.stale[k]), 3.4, strength);
    dot(pen, ...to, 4 + 9 * (1 - strength), null, staleColor(film, film.stale[k]), 1.6 * strength);
  }
  if (!gone) {
    dot(pen, cx, cy, 5.6, ink(), paper(), 1.6);
    const ex = clamp(cx, box.x + 9, box.x + box.w - 9), ey = clamp(cy, box.y + 9, box.y + box.h - 9);
    if (ex !== cx || ey !== cy) { // outside the window: an arrow at its rim
      const angle = Math.atan2(cy - ey, cx - ex), point = (turn, r) => [ex + r * Math.cos(angle + turn), ey + r * Math.sin(angle + turn)];
      pen.fillStyle = ink();
      pen.beginPath();
      [point(0, 8), point(2.5, 7), point(-2.5, 7)].forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.fill();
    }
  }
  for (const [w, x, y] of named) say(pen, w, x, y, { size: 12, weight: "700", align: "center", halo: true });
  say(pen, run.name, box.x + 11, box.y + 21, { size: 14, weight: "600", halo: true, color: runColor(run.color) });
  const loss = lossNow(run, state);
  const words = gone ? (run.diverged === null ? "the run ends here" : `diverged at commit ${run.diverged}`) : loss === null ? "" : `loss ${number(loss)}`;
  const narrow = box.w < 260; // then below the name, not beside it
  const at = narrow ? [box.x + 11, box.y + 39] : [box.x + box.w - 11, box.y + 21];
  say(pen, words, ...at, { size: 13, align: narrow ? "left" : "right", halo: true, weight: gone ? "700" : "", most: box.w - 22 });
  if (screen.chosen >= 0 && !gone) drawLens(pen, film, state, run, box, cx, cy);
  pen.restore();
  return hot;
}

function drawGravity(pen, film, state, box) {
  const radius = Math.max(Math.min(box.w, box.h) / 2 - 26, 1), ox = box.x + box.w / 2, oy = box.y + box.h / 2;
  const jobs = film.jobs, hot = [], core = Math.max(14, radius * 0.055);
  const at = gravityAt(film, state).map(([x, y]) => [ox + radius * x, oy - radius * y]);
  for (const age of [0, 1, 2]) {
    const r = radius * (NEAREST + (1 - NEAREST) * (1 - Math.exp(-age)));
    dot(pen, ox, oy, r, null, faint(), 1);
    say(pen, age ? `τ = ${number(age * film.out)}` : "fresh", ox, oy - r - 4, { color: soft(), size: 10.5, align: "center" });
  }
  const edge = (w, color, alpha, width) => stroke(pen, [at[w], [ox, oy]], color, width, alpha);
  for (const [k, strength] of flashes(film, state)) edge(jobs.worker[k], staleColor(film, film.stale[k]), 0.75 * strength, 2.2);
  state.up.forEach((w) => edge(w, staleColor(film, state.stale[w]), 0.85, 1.7));
  state.down.forEach((w) => edge(w, soft(), 0.45, 1.2));
  const order = at.map((_, w) => w).sort((a, b) => state.stale[a] - state.stale[b]);
  const size = Math.max(3.5, Math.min(8, 90 / Math.sqrt(film.workers) / 2.4));
  for (const w of order) {
    let [x, y] = at[w];
    const place = state.queue.indexOf(w);
    if (place >= 0) { // the queue: a ring around the server
      const angle = -Math.PI / 2 + (2 * Math.PI * place) / Math.max(state.queue.length, 8);
      [x, y] = [ox + core * 2.1 * Math.cos(angle), oy + core * 2.1 * Math.sin(angle)];
    }
    if (state.doing[w] === SERVICE) [x, y] = [ox, oy];
    hot.push([w, x, y]);
    const off = state.doing[w] === DOWN || state.doing[w] === IDLE, color = off ? soft() : staleColor(film, state.stale[w]);
    pen.globalAlpha = state.doing[w] === DOWN ? 0.3 : off ? 0.6 : 1;
    const chosen = w === screen.chosen, bold = chosen || w === state.stalest;
    if (place < 0 && state.doing[w] !== SERVICE) dot(pen, x, y, chosen ? size + 2.5 : size, color, paper(), 1.2);
    else dot(pen, x, y, size * 0.75, COLORS[state.doing[w]], paper(), 1);
    pen.globalAlpha = 1;
    if (bold) dot(pen, x, y, size + 4.5, null, chosen ? ink() : color, 2);
    if (film.workers <= 40 || bold) {
      const out = Math.hypot(x - ox, y - oy) || 1, far = size + (w === state.stalest ? 16 : 11);
      if (place < 0) say(pen, w, x + ((x - ox) / out) * far, y + ((y - oy) / out) * far + 4, { color: soft(), size: 11, align: "center" });
    }
    const j = state.job[w], up = state.doing[w] === SENDING;
    if (up || state.doing[w] === READING) {
      const come = up ? share(state.now, jobs.finish[j], jobs.arrive[j]) : 1 - share(state.now, jobs.begin[j], jobs.start[j]);
      dot(pen, x + (ox - x) * come, y + (oy - y) * come, 3.4, up ? color : paper(), color, 1.4);
    }
  }
  const glow = flashes(film, state).reduce((most, [, strength]) => Math.max(most, strength), 0);
  if (glow) { pen.globalAlpha = 0.25 * glow; dot(pen, ox, oy, core * (1.9 - 0.5 * glow), ink()); pen.globalAlpha = 1; }
  dot(pen, ox, oy, core, ink(), paper(), 2);
  say(pen, state.version, ox, oy + 4, { color: paper(), size: Math.min(core * 0.75, (2.7 * core) / `${state.version}`.length), weight: "600", align: "center" });
  return hot;
}

function lossNow(run, state) {
  const index = run.curve ? countUpTo(run.curve[0], state.done) - 1 : -1;
  return index < 0 ? null : run.curve[1][index];
}

function drawStaleness(pen, film, state, x, y, w, h) {
  say(pen, "Staleness of every worker", x, y + 12, { weight: "600" });
  const top = y + 20, row = (h - 22) / film.workers, most = film.most, left = x + 26, room = w - 60;
  const every = Math.ceil(11 / row), { stalest } = state, { chosen } = screen, apart = chosen - stalest;
  // The number of the chosen worker moves aside if it is beside that of the stalest one.
  const middle = (i) => top + (i + 0.5) * row + (i === chosen) * Math.sign(apart) * Math.max(0, 12 - Math.abs(apart) * row);
  for (let i = 0; i < film.workers; i++) {
    const v = top + i * row, stale = state.stale[i], long = (Math.max(stale, 0) / most) * room, gap = row > 4 ? 1.5 : 0.3;
    pen.fillStyle = COLORS[state.doing[i]];
    pen.globalAlpha = chosen >= 0 && chosen !== i ? 0.45 : 1;
    pen.fillRect(left, v, Math.max(2, long), Math.max(row - gap, 0.8));
    pen.globalAlpha = 1;
    const bold = i === stalest || i === chosen, at = middle(i), look = { size: 11, weight: "700" };
    if (bold) say(pen, stale, left + long + 5, at + 4, look);
    if (bold || (i % every === 0 && [stalest, chosen].every((k) => k < 0 || Math.abs(at - middle(k)) > 10.5))) say(pen, i, left - 5, at + 3.5, { ...(bold ? look : { color: soft(), size: 10 }), align: "right" });
  }
  screen.rows = { x, top, row, w, count: film.workers };
}

function drawHistogram(pen, film, state, x, y, w, h) {
  say(pen, "Staleness of the commits", x, y + 12, { weight: "600" });
  const size = film.most + 1, counts = new Float64Array(size);
  for (let k = 0; k < state.done; k++) counts[film.stale[k]]++;
  const wide = Math.ceil(size / 60), bins = Math.ceil(size / wide), bars = new Float64Array(bins), law = new Float64Array(bins);
  counts.forEach((count, stale) => (bars[Math.floor(stale / wide)] += state.done ? count / state.done : 0));
  (film.law || []).forEach((chance, stale) => { if (stale < size) law[Math.floor(stale / wide)] += chance; });
  const high = Math.max(...law, ...bars, 1e-9) * 1.08, base = y + h - 16, tall = h - 40, step = w / bins;
  bars.forEach((bar, i) => {
    pen.fillStyle = staleColor(film, i * wide);
    pen.fillRect(x + i * step, base - (bar / high) * tall, Math.max(step - 1, 0.7), (bar / high) * tall);
  });
  if (film.law) {
    const outline = [];
    law.forEach((chance, i) => outline.push([x + i * step, base - (chance / high) * tall], [x + (i + 1) * step, base - (chance / high) * tall]));
    stroke(pen, outline, ink(), 1.4);
    say(pen, "line: theory", x + w, y + 12, { color: soft(), size: 10.5, align: "right" });
  }
  stroke(pen, [[x, base], [x + w, base]], soft(), 1, 0.6);
  const mean = state.done ? film.staleSum[state.done] / state.done : 0;
  if (state.done) stroke(pen, [[x + ((mean + 0.5) / wide) * step, base], [x + ((mean + 0.5) / wide) * step, y + 22]], alarm(), 1.4, 0.9);
  say(pen, "0", x, base + 12, { color: soft(), size: 10 });
  say(pen, state.done ? `mean ${number(mean)}` : "no commit yet", x + w / 2, base + 12, { color: alarm(), size: 10.5, align: "center" });
  say(pen, film.most, x + w, base + 12, { color: soft(), size: 10, align: "right" });
}

function drawLoss(pen, film, state, x, y, w, h) {
  const curves = film.runs.filter((run) => run.curve && run.curve[1].length);
  if (!curves.length) return;
    const values = curves.flatMap((run) => run.curve[1]), log = Math.min(...values) > 0;
  say(pen, log ? `${film.lossName} (logarithmic)` : film.lossName, x, y + 12, { weight: "600", most: w });
  const top = Math.min(Math.max(...values), 30 * Math.max(...curves.map((run) => run.curve[1][0]))); // what diverges leaves
  const f = log ? Math.log10 : (value) => value, low = Math.min(...values.map(f)), high = f(top);
  const base = y + h - 16, range = Math.max(high - low, 1e-9);
  let at = x, line = 0; // the names, above the curves
  for (const run of curves) {
    pen.font = `600 11px system-ui, "DejaVu Sans", sans-serif`;
    const wide = pen.measureText(run.name).width;
    if (at > x && at + wide > x + w) { at = x; line++; }
    say(pen, run.name, at, y + 27 + 14 * line, { color: runColor(run.color), size: 11, weight: "600", most: w });
    at += wide + 11;
  }
  const over = y + 34 + 14 * line, tall = base - over;
  const tick = (commit) => (commit ? film.ticks[Math.min(commit, film.commits) - 1] : film.start);
  const toX = (commit) => x + ((tick(commit) - film.start) / (film.stop - film.start)) * w;
  const toY = (value) => base - ((f(Math.min(value, top)) - low) / range) * tall, worst = log ? 10 ** low : low;
  stroke(pen, [[x, base], [x + w, base]], soft(), 1, 0.6);
  const ys = log ? decades(worst, top) : ticksOf(low, high, 3), apart = Math.ceil((ys.length * 15) / Math.max(tall, 1));
  ys.filter((_, i) => i % apart === 0).forEach((value) => {
    stroke(pen, [[x, toY(value)], [x + w, toY(value)]], faint(), 1);
    say(pen, number(value), x + w, toY(value) - 2, { color: soft(), size: 9.5, align: "right", halo: true });
  });
  for (const second of ticksOf(film.start / film.per_second, film.stop / film.per_second, Math.max(2, w / 80))) {
    const u = x + ((second * film.per_second - film.start) / (film.stop - film.start)) * w;
    stroke(pen, [[u, base], [u, base + 3]], soft(), 1);
    say(pen, `${number(second)} s`, Math.min(u, x + w - 2), base + 14, { color: soft(), size: 10, align: u < x + 12 ? "left" : u > x + w - 16 ? "right" : "center" });
  }
  const here = x + ((state.now - film.start) / (film.stop - film.start)) * w;
  stroke(pen, [[here, over], [here, base]], ink(), 1, 0.5);
  screen.curve = { x, w, top: y, bottom: y + h };
  curves.forEach((run) => {
    const points = run.curve[0].map((commit, j) => [toX(commit), toY(run.curve[1][j])]);
    const past = countUpTo(run.curve[0], state.done), color = runColor(run.color);
    stroke(pen, points, color, 1.2, 0.22);
    if (past) { stroke(pen, points.slice(0, past), color, 2); dot(pen, ...points[past - 1], 3, color); }
  });
}

function draw(film, state) {
  let [pen, width, height] = fitted($("stage"));
  screen.hot = [];
  if (film.view === "landscape") {
    const runs = film.runs.filter((run) => run.path), boxes = panels(runs.length, width, height);
    runs.forEach((run, i) => screen.hot.push(...drawLandscape(pen, film, state, run, boxes[i])));
  } else screen.hot = (film.graph ? drawGraph : drawGravity)(pen, film, state, { x: 0, y: 0, w: width, h: height });
  [pen, width, height] = fitted($("side"));
  const curves = film.runs.some((run) => run.curve), rest = curves ? 0.27 : 0.34;
  const bars = height * (1 - rest * (curves ? 2 : 1)) - 10;
  drawStaleness(pen, film, state, 0, 0, width, bars);
  drawHistogram(pen, film, state, 0, bars + 12, width, height * rest - 12);
  if (curves) drawLoss(pen, film, state, 0, bars + 12 + height * rest, width, height * rest - 4);
}

// The page

const describe = (film, state, w) => {
  const lines = [`${who(film, w)}: ${DOING[state.doing[w]]}`];
  if (state.stale[w] >= 0) lines.push(`read version ${state.read[w]}`, `staleness ${state.stale[w]}`);
  let commits = 0;
  for (let k = 0; k < state.done; k++) commits += film.jobs.worker[k] === w;
  lines.push(`${commits} commits${film.row ? " in this window" : ""}`);
  for (const run of film.runs) {
    const units = run.path && state.stale[w] >= 0 && readUnits(film, run, state.job[w]);
    if (units) lines.push(`${run.name}: read at (${place(film, ...units).map(number).join(", ")})`);
  }
  return lines.join("\n");
};

// One sentence for each run about the chosen worker.
const explained = (film, state, w) => {
  if (w < 0) return "";
  if (state.stale[w] < 0) return `Worker ${w} is ${DOING[state.doing[w]]}.`;
  const words = [film.graph ? modelOf(film, state, w)
    : `Worker ${w} computes on version ${state.read[w]}, ${state.stale[w]} behind.`];
  for (const run of film.runs) {
    const lens = mechanismAt(film, run, state, w), long = (v) => number(Math.hypot(...v));
    if (!lens) continue;
    const moved = long(lens.central), name = run.name;
    if (lens.pi) words.push(`${name}: the parameters moved by ${moved}, the proxy's step κ|m| is ${long(lens.proxy)}, so π = (${lens.pi.map(number).join(", ")}), and its own step of ${long(lens.update)} becomes a commit of ${long(lens.commit)}.`);
    else if (lens.commit) words.push(`${name}: the parameters moved by ${moved}, and it commits its step of ${long(lens.commit)} all the same.`);
    else words.push(`${name}: the parameters moved by ${moved} since.`);
  }
  return words.join(" ");
};

function open(film) {
  const first = film.start / film.per_second, last = film.stop / film.per_second, job = film.typical / film.per_second;
  const ask = (name) => new RegExp(`[?&#]${name}=([^&#]+)`).exec(location.search + location.hash), part = ask("chapter"), jump = ask("t") || part, follow = ask("worker");
  const speeds = [0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16].map((factor) => factor * film.speed);
  let time = first, playing = false, speed = 4, before = 0, pointer = null;
  const decimals = Math.max(0, 1 - Math.floor(Math.log10(job)));

  const show = () => {
    const state = stateAt(film, time), s = state.stalest;
    draw(film, state);
    $("slider").value = Math.round(((time - first) / (last - first)) * 10000);
    $("slider").setAttribute("aria-valuetext", `${time.toFixed(decimals)} seconds`);
    $("clock").textContent = `${time.toFixed(decimals)} / ${last.toFixed(decimals)} s`;
    const unit = film.graph ? "change" : "version", behind = s < 0 ? "" : ` · stalest: ${who(film, s)}, ${state.stale[s]} ${unit}${state.stale[s] === 1 ? "" : "s"} behind`;
    $("now").textContent = (film.graph ? "" : `version ${state.version} · `) + `${state.commits} commits${behind}`;
    $("play").textContent = playing ? "Pause" : time >= last ? "Again" : "Play";
    const w = pointer ? pointed(pointer) : -1;
    $("tip").hidden = w < 0;
    if (w >= 0) {
      $("tip").textContent = describe(film, state, w);
      const box = $("tip").getBoundingClientRect();
      $("tip").style.left = `${Math.min(pointer.clientX + 14, innerWidth - box.width - 8)}px`;
      $("tip").style.top = `${Math.min(pointer.clientY + 14, innerHeight - box.height - 8)}px`;
    }
    if (!playing) $("state").textContent = JSON.stringify(written(film, state));
    const part = film.chapters.findLastIndex(([seconds]) => seconds <= time + 1e-9);
    [...$("chapters").children].forEach((button, i) => button.toggleAttribute("aria-current", i === part));
    const [begun, said] = film.chapters[part] ?? [time, ""];
    // A sentence is about its own moment: later on, its time stands before it.
    $("chapter").textContent = time > begun + 1e-9 ? `At ${begun.toFixed(decimals)} s: ${said}` : said;
    $("why").textContent = explained(film, state, screen.chosen);
    $("worker").value = screen.chosen;
    return state;
  };
  const choose = (w) => { screen.chosen = w < -1 ? film.workers - 1 : w >= film.workers ? -1 : w; show(); };
  const chapter = (i) => {
    const [seconds, , worker] = film.chapters[i];
    playing = false;
    screen.chosen = worker;
    seek(seconds);
  };
  const turn = (by) => {
    const part = film.chapters.findLastIndex(([seconds]) => seconds <= time + 1e-9);
    chapter(clamp(part + by, 0, film.chapters.length - 1));
  };
  const seek = (to) => { time = clamp(to, first, last); return show(); };
  const frame = (stamp) => {
    if (!playing) return;
    time = Math.min(time + (Math.min(stamp - before, 100) / 1000) * speeds[speed], last);
    before = stamp;
    if (time >= last) playing = false;
    show();
    requestAnimationFrame(frame);
  };
  const play = (on) => {
    if (on && time >= last) time = first;
    playing = on;
    before = performance.now();
    show();
    if (on) requestAnimationFrame(frame);
  };
  const step = (commits) => {
    const done = countUpTo(film.ticks, time * film.per_second * (1 + 1e-12)) - 1;
    const at = commits > 0 ? film.ticks[Math.min(done + commits, film.commits - 1)] : film.ticks.findLast((tick, k) => k <= done + commits);
    play(false);
    seek(at === undefined ? first : at / film.per_second);
  };
  const faster = (by) => { speed = clamp(speed + by, 0, speeds.length - 1); $("speed").value = speed; };
  // The time that a click on the loss curve asks for.
  const sought = (event) => {
    const curve = screen.curve, box = $("side").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (!curve || y < curve.top + 16 || y > curve.bottom + 8) return false;
    playing = false;
    seek(first + clamp((x - curve.x) / curve.w, 0, 1) * (last - first));
    return true;
  };
  const pointed = (event) => {
    const canvas = event.target, box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (canvas.id === "side") {
      const rows = screen.rows, at = Math.floor((y - rows.top) / rows.row);
      return at >= 0 && at < rows.count ? at : -1;
    }
    let best = -1, near = 18 ** 2;
    for (const [w, u, v] of screen.hot) {
      const far = (u - x) ** 2 + (v - y) ** 2;
      if (far <= near) { near = far; best = w; }
    }
    return best;
  };
  const theme = (dark) => { screen.dark = dark; document.body.classList.toggle("dark", dark); reliefs.clear(); show(); };

  speeds.forEach((value, i) => $("speed").add(new Option(`${number(value)} s/s`, i)));
  faster(0);
  $("stage").classList.toggle("several", film.view === "landscape" && film.runs.length > 1);
  const kinds = [[COMPUTING, "computing"], [READING, "reading or sending"], [WAITING, "waiting"], [SERVICE, "in service"], [IDLE, "idle"], [DOWN, "down"]];
  const legend = (color, text) => {
    const entry = document.createElement("span"), patch = document.createElement("i");
    patch.style.background = color;
    entry.append(patch, text);
    $("legend").append(entry);
  };
  $("legend").append("bars: ");
  kinds.forEach(([kind, text]) => legend(COLORS[kind], text));
  $("legend").append("dots: ");
  [0, 1, 2].forEach((times) => legend(staleColor(film, times * film.out), times ? `τ = ${number(times * film.out)}${times > 1 ? " or more" : ""}` : "fresh"));
  if (film.graph) $("legend").append(`lines: exchanges and messages${film.graph.distanceAt.length ? SIZES : ""}`);
  if (film.view === "landscape") {
    const lens = document.createElement("div");
    lens.textContent = "magnifier: line: motion of the parameters since the read · thin arrow: the worker's own step · " +
      "thick arrow: the commit · dashed ring: the proxy's step κ|m| of GEM";
    if (film.runs.some((run) => run.mechanism)) $("legend").append(lens);
  }
  $("play").onclick = () => play(!playing);
  $("back").onclick = () => step(-1);
  $("forth").onclick = () => step(1);
  $("slider").oninput = () => {
    const to = first + ($("slider").value / 10000) * (last - first); // before anything is shown, which moves the slider
    playing = false;
    seek(to);
  };
  $("speed").onchange = () => { speed = +$("speed").value; };
  $("theme").onclick = () => theme(!screen.dark);
  for (const canvas of [$("stage"), $("side")]) {
    canvas.onpointermove = (event) => { pointer = event; if (!playing) show(); };
    canvas.onpointerleave = () => { pointer = null; if (!playing) show(); };
    canvas.onclick = (event) => {
      if (canvas.id === "side" && sought(event)) return;
      const w = pointed(event);
      if (event.pointerType === "mouse") pointer = event;
      choose(w === screen.chosen ? -1 : w);
    };
  }
  $("side").onpointerdown = (event) => { if (sought(event)) $("side").setPointerCapture(event.pointerId); };
  $("side").addEventListener("pointermove", (event) => { if (event.buttons) sought(event); });
  const picker = $("worker");
  picker.add(new Option("no worker", -1));
  for (let w = 0; w < film.workers; w++) picker.add(new Option(who(film, w), w));
  picker.onchange = () => choose(+picker.value);
  film.chapters.forEach(([seconds, text], i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = i + 1;
    button.title = text;
    button.setAttribute("aria-label", `chapter ${i + 1}, at ${seconds.toFixed(decimals)} s: ${text}`);
    button.onclick = () => chapter(i);
    $("chapters").append(button);
    const mark = document.createElement("i");
    mark.style.left = `${(100 * (seconds - first)) / (last - first)}%`;
    $("marks").append(mark);
  });
  document.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const ten = event.shiftKey ? 10 : 1;
    const keys = { " ": () => play(!playing), ArrowRight: () => step(ten), ArrowLeft: () => step(-ten), Home: () => seek(first),
      End: () => { play(false); seek(last); }, "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1), d: () => theme(!screen.dark),
      ArrowUp: () => choose(screen.chosen - 1), ArrowDown: () => choose(screen.chosen + 1), Escape: () => choose(-1),
      PageDown: () => turn(1), PageUp: () => turn(-1) };
    if (!keys[event.key] || (event.key === " " && event.target.tagName === "BUTTON")) return;
    event.preventDefault();
    keys[event.key]();
  };
  screen.dark = isDark(theme);
  document.body.classList.toggle("dark", screen.dark);
  addEventListener("resize", () => show());
  window.movie = { film, stateAt: (seconds) => written(film, stateAt(film, seconds)), seek, play, get playing() { return playing; }, get chosen() { return screen.chosen; } };
  if (follow && film.begins[+follow[1]]) screen.chosen = +follow[1];
  if (part && film.chapters[part[1] - 1]) chapter(part[1] - 1);
  else seek(jump && isFinite(jump[1]) ? +jump[1] : first);
  if (!jump && !screen.still) play(true);
}

unpack($("film").textContent).then((data) => {
  const film = develop(data);
  if (film.graph) developGraph(film.graph);
  film.most = Math.max(1, film.peak, ...film.stale);
  film.staleSum = [0, ...added(film.stale)];
  open(film);
});
