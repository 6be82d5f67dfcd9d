// The page of a run's report: its curves with values, its timeline from the whole run to a single job, its tables.

const GAP = { left: 54, right: 10, top: 12, bottom: 30 };
const pages = []; // what is drawn again when the size or the theme changes

function axes(pen, width, height, frame, labels) {
  const { toX, toY, xs, ys } = frame, base = height - GAP.bottom;
  for (const y of ys) {
    stroke(pen, [[GAP.left, toY(y)], [width - GAP.right, toY(y)]], faint(), 1);
    say(pen, number(y), GAP.left - 6, toY(y) + 4, { color: soft(), size: 11, align: "right" });
  }
  for (const x of xs) say(pen, number(x), toX(x), base + 14, { color: soft(), size: 11, align: "center" });
  stroke(pen, [[GAP.left, base], [width - GAP.right, base]], soft(), 1, 0.7);
  say(pen, labels, width - GAP.right, base + 27, { color: soft(), size: 11, align: "right" });
}

function panel(title, sentence, paint) {
  const part = document.createElement("div"), head = document.createElement("h2"), canvas = document.createElement("canvas");
  const words = document.createElement("p");
  head.textContent = title;
  words.textContent = sentence;
  words.className = "words";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  part.append(head, words, canvas);
  $("panels").append(part);
  let at = null;
  const again = () => {
    const [pen, width, height] = fitted(canvas), words = paint(pen, width, height, at && at.x);
    if (at) tip(words, at.event);
  };
  canvas.onpointermove = (event) => { at = { x: event.offsetX, event }; again(); };
  canvas.onpointerleave = () => { at = null; tip(""); again(); };
  pages.push(again);
}

function tip(words, event) {
  $("tip").hidden = !words;
  if (!words) return;
  $("tip").textContent = words;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  $("tip").style.top = `${Math.min(event.clientY + 14, innerHeight - box.height - 8)}px`;
}

// Lines over a common axis; null in a line is a gap. With the pointer above, the values at its x.
function curves(chart) {
  const values = chart.lines.flatMap((line) => line.y.filter((y) => y !== null)), log = chart.log && Math.min(...values) > 0;
  panel(chart.title, chart.words, (pen, width, height, pointer) => {
    if (!values.length) { say(pen, chart.remark, width / 2, height / 2, { color: soft(), align: "center" }); return ""; }
    const f = log ? Math.log10 : (y) => y, low = log ? Math.min(...values) : Math.min(0, ...values), high = Math.max(...values);
    const last = Math.max(...chart.lines.map((line) => line.x.at(-1))), base = height - GAP.bottom;
    const toX = (x) => GAP.left + (x / last) * (width - GAP.left - GAP.right);
    const toY = (y) => base - ((f(y) - f(low)) / (f(high) - f(low) || 1)) * (base - GAP.top);
    axes(pen, width, height, { toX, toY, xs: ticksOf(0, last, 6), ys: log ? decades(low, high) : ticksOf(low, high || 1, 5) }, chart.x);
    chart.lines.forEach((line, i) => {
      const color = runColor(line.color ?? i), pieces = [[]];
      line.x.forEach((x, k) => (line.y[k] === null ? pieces.push([]) : pieces.at(-1).push([toX(x), toY(line.y[k])])));
      pieces.forEach((piece) => stroke(pen, piece, color, 1.8));
      if (chart.lines.length > 1) say(pen, line.name, width - GAP.right - 4, GAP.top + 12 + 15 * i, { color, weight: "600", align: "right", halo: true });
    });
    say(pen, chart.remark, GAP.left + 6, GAP.top + 2, { color: alarm(), size: 11.5, halo: true });
    if (pointer === null || pointer < GAP.left) return "";
    const x = ((pointer - GAP.left) / (width - GAP.left - GAP.right)) * last, words = [];
    chart.lines.forEach((line, i) => {
      const near = Math.max(countUpTo(line.x, x) - 1, 0);
      if (!words.length) words.push(`${chart.x} ${number(line.x[near])}`);
      if (line.y[near] === null) return;
      dot(pen, toX(line.x[near]), toY(line.y[near]), 4, runColor(line.color ?? i), paper());
      words.push(`${line.name} ${number(line.y[near])}`);
    });
    stroke(pen, [[pointer, GAP.top], [pointer, base]], soft(), 1, 0.5);
    return words.join("\n");
  });
}

function staleness(film, chart) {
  panel("Staleness", chart.words, (pen, width, height, pointer) => {
    const size = Math.max(chart.shares.length, (chart.law || []).length), base = height - GAP.bottom, room = width - GAP.left - GAP.right;
    const high = Math.max(...chart.shares, ...(chart.law || [0])) * 1.08 || 1, step = room / size;
    const toX = (x) => GAP.left + (x + 0.5) * step, toY = (y) => base - (y / high) * (base - GAP.top);
    axes(pen, width, height, { toX, toY, xs: ticksOf(0, size - 1, 6).filter(Number.isInteger), ys: ticksOf(0, high, 4) }, `staleness of a commit, in ${chart.unit}`);
    chart.shares.forEach((share, i) => {
      pen.fillStyle = staleColor(film, i);
      pen.fillRect(GAP.left + i * step, toY(share), Math.max(step - 1, 0.6), base - toY(share));
    });
    if (chart.law) stroke(pen, chart.law.flatMap((chance, i) => [[GAP.left + i * step, toY(chance)], [GAP.left + (i + 1) * step, toY(chance)]]), ink(), 1.5);
    stroke(pen, [[toX(chart.mean), GAP.top], [toX(chart.mean), base]], alarm(), 1.4);
    const words = `mean ${number(chart.mean)}` + (chart.law ? `, line: theory, total variation ${number(chart.distance)}` : "");
    say(pen, words, width - GAP.right, GAP.top + 4, { color: soft(), size: 11.5, align: "right", halo: true });
    if (pointer === null || pointer < GAP.left) return "";
    const at = Math.min(Math.floor((pointer - GAP.left) / step), size - 1), percent = (share) => `${number(100 * (share || 0))} %`;
    return `staleness ${at}\nmeasured ${percent(chart.shares[at])}` + (chart.law ? `\npredicted ${percent(chart.law[at])}` : "");
  });
}

// The timeline

// The share of workers in each activity, at `count` times of the whole run.
function overview(film, count) {
  const every = Math.max(1, Math.ceil(film.workers / 60)), shares = [];
  for (let i = 0; i < count; i++) {
    const counts = Array(DOING.length).fill(0), now = film.start + ((i + 0.5) / count) * (film.stop - film.start);
    let workers = 0;
    for (let w = 0; w < film.workers; w += every, workers++) counts[doingAt(film, w, now)[0]]++;
    shares.push(counts.map((sum) => sum / workers));
  }
  return shares;
}

function doingAt(film, worker, now) {
  if (film.down[worker].some(([first, last]) => first <= now && now < last)) return [DOWN, -1];
  const count = countUpTo(film.begins[worker], now), job = count ? film.byWorker[worker][count - 1] : -1, jobs = film.jobs;
  if (job < 0 || jobs.end[job] <= now) return [IDLE, -1];
  return [READING + (jobs.start[job] <= now) + (jobs.finish[job] <= now) + (jobs.arrive[job] <= now) + (jobs.serve[job] <= now), job];
}

function timeline(film) {
  const canvas = $("timeline"), lane = Math.max(1, Math.min(16, Math.floor(560 / film.workers))), left = 34, head = 4, foot = 24;
  const high = lane * film.workers, least = Math.max((film.stop - film.start) * 1e-6, 4);
  canvas.style.height = `${high + head + foot}px`;
  const strip = $("strip"), shares = overview(film, 300);
  let from = film.start, to = Math.min(film.start + Math.min(Math.max(10 * film.per_second, 4 * film.typical), 100 * film.typical), film.stop);
  let pointer = null;
  const drawStrip = () => {
    const [pen, width, height] = fitted(strip), room = width - left - 6, step = room / shares.length;
    shares.forEach((counts, i) => {
      let y = height;
      counts.forEach((share, doing) => {
        pen.fillStyle = COLORS[doing];
        const tall = share * height;
        pen.fillRect(left + i * step, y - tall, step + 0.5, tall);
        y -= tall;
      });
    });
    const at = (tick) => left + ((tick - film.start) / (film.stop - film.start)) * room;
    pen.fillStyle = paper();
    pen.globalAlpha = 0.65;
    pen.fillRect(left, 0, at(from) - left, height);
    pen.fillRect(at(to), 0, left + room - at(to), height);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink();
    pen.lineWidth = 2;
    pen.strokeRect(at(from), 1, Math.max(at(to) - at(from), 3), height - 2);
  };
  const draw = () => {
    const [pen, width] = fitted(canvas), room = width - left - 6, scale = room / (to - from), jobs = film.jobs;
    const toX = (tick) => left + (tick - from) * scale, gap = lane > 4 ? 1 : 0, base = head + high;
    const span = (worker, first, last, doing) => {
      const x = Math.max(toX(first), left), end = Math.min(toX(last), left + room);
      if (end <= x) return;
      pen.fillStyle = COLORS[doing];
      pen.fillRect(x, head + worker * lane, Math.max(end - x, 0.35), lane - gap);
    };
    let whole = 0;
    for (let w = 0; w < film.workers; w++) {
      const first = Math.max(countUpTo(film.begins[w], from) - 1, 0), last = countUpTo(film.begins[w], to), ids = film.byWorker[w];
      if (last - first > room) { // more jobs than pixels: what it does at the time of each pixel
        for (let x = 0, run = 0, before = -1; x <= room; x++) {
          const doing = x < room ? doingAt(film, w, from + (x + 0.5) / scale)[0] : -1;
          if (doing === before) continue;
          if (before > IDLE) span(w, from + run / scale, from + x / scale, before);
          [run, before] = [x, doing];
        }
        continue;
      }
      for (let i = first; i < last; i++) {
        const j = ids[i], stages = [jobs.begin[j], jobs.start[j], jobs.finish[j], jobs.arrive[j], jobs.serve[j], jobs.end[j]];
        for (let k = 0; k < 5; k++) if (stages[k + 1] > stages[k]) span(w, stages[k], Math.min(stages[k + 1], film.stop), READING + k);
        whole++;
      }
      for (const [first, last] of film.down[w]) span(w, first, Math.min(last, film.stop), DOWN);
    }
    if (whole && whole < 6 * room && lane > 4) { // ticks of commits
      pen.fillStyle = ink();
      const first = countUpTo(film.ticks, from), last = countUpTo(film.ticks, to);
      for (let k = first; k < last; k++) pen.fillRect(toX(film.ticks[k]) - 0.6, head + film.jobs.worker[k] * lane - 1, 1.2, lane);
    }
    for (let w = 0; w < film.workers; w += Math.ceil(12 / lane)) say(pen, w, left - 5, head + w * lane + lane / 2 + 3.5, { color: soft(), size: 10, align: "right" });
    for (const second of ticksOf(from / film.per_second, to / film.per_second, Math.max(2, room / 110))) {
      const x = toX(second * film.per_second);
      stroke(pen, [[x, base], [x, base + 4]], soft(), 1);
      say(pen, `${+second.toPrecision(9)} s`, x, base + 17, { color: soft(), size: 11, align: x > width - 24 ? "right" : "center" });
    }
    $("shown").textContent = `${number(from / film.per_second)} to ${number(to / film.per_second)} s of ${number(film.stop / film.per_second)} s`;
    const version = film.version + film.closed[countUpTo(film.ticks, to)];
    $("state").textContent = JSON.stringify({ from: from / film.per_second, to: to / film.per_second, version, workers: film.workers });
    drawStrip();
    if (!pointer) return;
    const x = pointer.offsetX, w = Math.floor((pointer.offsetY - head) / lane);
    if (x < left || w < 0 || w >= film.workers) { tip(""); return; }
    const now = from + (x - left) / scale, [doing, job] = doingAt(film, w, now), words = [`${who(film, w)} at ${(now / film.per_second).toPrecision(5)} s: ${DOING[doing]}`];
    if (job >= 0) {
      words.push(`read version ${jobs.read[job]} at ${(jobs.begin[job] / film.per_second).toPrecision(5)} s`);
      const done = job < film.commits;
      words.push(done ? `commits at ${(jobs.end[job] / film.per_second).toPrecision(5)} s, staleness ${film.stale[job]}` : "does not commit in this run");
    }
    tip(words.join("\n"), pointer);
  };
  const look = (first, last) => {
    const wide = Math.min(Math.max(last - first, least), film.stop - film.start);
    from = Math.min(Math.max(first, film.start), film.stop - wide);
    to = from + wide;
    draw();
  };
  const zoom = (factor, share = 0.5) => { const at = from + share * (to - from); look(at - (at - from) * factor, at + (to - at) * factor); };
  const move = (share) => look(from + share * (to - from), to + share * (to - from));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / 1500);
    else zoom(Math.exp(event.deltaY / 400), (event.offsetX - left) / (canvas.clientWidth - left - 6));
  }, { passive: false });
  const held = new Map(); // fingers and the mouse
  canvas.onpointerdown = (event) => { held.set(event.pointerId, event.offsetX); canvas.setPointerCapture(event.pointerId); };
  canvas.onpointerup = canvas.onpointercancel = (event) => held.delete(event.pointerId);
  canvas.onpointermove = (event) => {
    pointer = event;
    const before = held.get(event.pointerId), room = canvas.clientWidth - left - 6;
    if (before === undefined) { draw(); return; }
    if (held.size === 1) move((before - event.offsetX) / room);
    else {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      zoom(Math.min(Math.max(Math.abs(before - other) / Math.max(Math.abs(event.offsetX - other), 1), 0.5), 2), (other - left) / room);
    }
    held.set(event.pointerId, event.offsetX);
  };
  canvas.onpointerleave = () => { pointer = null; tip(""); };
  const slide = (event) => {
    const share = (event.offsetX - left) / (strip.clientWidth - left - 6), middle = film.start + share * (film.stop - film.start);
    look(middle - (to - from) / 2, middle + (to - from) / 2);
  };
  strip.onpointerdown = (event) => { strip.setPointerCapture(event.pointerId); slide(event); };
  strip.onpointermove = (event) => { if (event.buttons) slide(event); };
  canvas.ondblclick = () => look(film.start, film.stop);
  const keys = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), 0: () => look(film.start, film.stop) };
  canvas.onkeydown = strip.onkeydown = (event) => { if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); } };
  $("in").onclick = keys["+"];
  $("out").onclick = keys["-"];
  $("left").onclick = keys.ArrowLeft;
  $("right").onclick = keys.ArrowRight;
  $("all").onclick = keys[0];
  for (const kind of [COMPUTING, READING, WAITING, SERVICE, DOWN]) {
    const entry = document.createElement("span"), patch = document.createElement("i");
    patch.style.background = COLORS[kind];
    entry.append(patch, kind === READING ? "reading or sending" : DOING[kind]);
    $("legend").append(entry);
  }
  pages.push(draw);
  window.report = { film, look: (first, last) => look(first * film.per_second, last * film.per_second) };
}

function table(title, rows) {
  const part = document.createElement("div"), head = document.createElement("h2"), body = document.createElement("table");
  head.textContent = title;
  for (const [name, value] of rows) {
    const row = body.insertRow(), label = document.createElement("th");
    label.textContent = name;
    label.scope = "row";
    row.append(label);
    row.insertCell().textContent = value;
  }
  part.append(head, body);
  $("tables").append(part);
}

unpack($("film").textContent).then((data) => {
  const film = develop(data), show = () => pages.forEach((page) => page());
  const theme = (dark) => { screen.dark = dark; document.body.classList.toggle("dark", dark); show(); };
  $("now").textContent = data.remark;
  curves(data.panels[0]);
  staleness(film, data.staleness);
  data.panels.slice(1).forEach(curves);
  timeline(film);
  data.tables.forEach(({ title, rows }) => table(title, rows));
  $("theme").onclick = () => theme(!screen.dark);
  document.addEventListener("keydown", (event) => { if (event.key === "d" && !event.ctrlKey && !event.metaKey) theme(!screen.dark); });
  addEventListener("resize", show);
  theme(isDark(theme));
});
