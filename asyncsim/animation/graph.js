// Workers on a graph or in regions, in pages of movies of `asyncsim.Gossip` and `asyncsim.Hierarchy`. `messagesAt`, `exchanges` and `graphAt` are copies of
// asyncsim/animation/_graph.py, and the tests compare them.

const FLASH = 0.3, PULL = 0.14; // as in _graph.py
const SIZES = " · size of a dot: distance of the model from the mean of all";

// Times and columns as in _graph.py.
function developGraph(graph) {
  const events = graph.last.length;
  graph.last = added(graph.last);
  graph.kind = column(graph.kind, events);
  graph.first = column(graph.lasted, events).map((ticks, event) => graph.last[event] - ticks);
  graph.changes = graph.changes.map(added);
  // In regions, the page has the versions of the variables. These are of each worker's variable.
  if (graph.variable) [graph.base, graph.changes] = [graph.base, graph.changes].map((of) => graph.variable.map((v) => of[v]));
}

// Sender, receiver and share of its way of each message under way between workers on a graph.
function messagesAt(film, now) {
  const messages = [];
  film.graph.last.forEach((last, event) => {
    const first = film.graph.first[event];
    if (first <= now && now < last) for (const [from, to] of film.graph.senders[film.graph.kind[event]]) messages.push([from, to, (now - first) / (last - first)]);
  });
  return messages;
}

// Sender, receiver and strength of each exchange a moment ago.
function exchanges(film, now) {
  const { graph } = film, long = FLASH * film.typical, recent = [];
  for (let event = countUpTo(graph.last, now - long); event < countUpTo(graph.last, now); event++) {
    for (const [from, to] of graph.senders[graph.kind[event]]) recent.push([from, to, 1 - (now - graph.last[event]) / long]);
  }
  return recent;
}

function graphAt(film, now) {
  const { places } = film.graph, shift = places.map(() => [0, 0, 0]);
  for (const [from, to, strength] of exchanges(film, now)) {
    const pull = 4 * strength * (1 - strength);
    for (const [one, other] of [[from, to], [to, from]]) {
      shift[one][0] += pull * (places[other][0] - places[one][0]);
      shift[one][1] += pull * (places[other][1] - places[one][1]);
      shift[one][2]++;
    }
  }
  return places.map(([x, y], w) => [x + (PULL * shift[w][0]) / Math.max(shift[w][2], 1), y + (PULL * shift[w][1]) / Math.max(shift[w][2], 1)]);
}

// Sentence about the model that a worker goes on from.
function modelOf(film, state, w) {
  const [name, whose] = film.graph.regions ? [who(film, w), "its server's model"] : ["Worker " + w, "its own model"];
  return `${name} computes on ${whose}. Changes by others since: ${state.stale[w]}.`;
}

function drawGraph(pen, film, state, box) {
  const radius = Math.max(Math.min(box.w, box.h) / 2 - 34, 1), ox = box.x + box.w / 2, oy = box.y + box.h / 2, { graph } = film, hot = [];
  const at = graphAt(film, state.now).map(([x, y]) => [ox + radius * x, oy - radius * y]);
  for (const [a, b] of graph.edges) stroke(pen, [at[a], at[b]], faint(), 1.2);
  if (!screen.still) for (const [from, to, strength] of exchanges(film, state.now)) stroke(pen, [at[from], at[to]], ink(), 2.6, 0.75 * strength);
  for (const [from, to, come] of messagesAt(film, state.now)) {
    stroke(pen, [at[from], at[to]], soft(), 1.6, 0.6);
    dot(pen, at[from][0] + (at[to][0] - at[from][0]) * come, at[from][1] + (at[to][1] - at[from][1]) * come, 4.5, from < film.workers ? staleColor(film, state.stale[from]) : ink(), paper(), 1.2);
  }
  const frame = countUpTo(graph.distanceAt, state.done) - 1, most = Math.max(6, Math.min(19, 110 / Math.sqrt(film.workers)));
  for (let w = 0; w < film.workers; w++) {
    const [x, y] = at[w], size = most * (w < film.workers - (graph.regions || 0) ? 1 : 1.34) * (frame < 0 ? 0.75 : 0.45 + 0.55 * graph.distance[frame][w] / 100);
    const off = state.doing[w] === DOWN || state.doing[w] === IDLE, color = off ? soft() : staleColor(film, state.stale[w]);
    hot.push([w, x, y]);
    pen.globalAlpha = state.doing[w] === DOWN ? 0.3 : 1;
    dot(pen, x, y, size, color, paper(), 1.5);
    pen.globalAlpha = 1;
    if (w === state.stalest || w === screen.chosen) dot(pen, x, y, size + 4.5, null, w === screen.chosen ? ink() : color, 2);
    if (film.workers <= 40 || w === screen.chosen) say(pen, w, x, y + 4, { size: 12, weight: "600", align: "center", halo: true });
  }
  if (graph.regions) {
    const [x, y] = at[film.workers], last = film.workers - 1;
    dot(pen, x, y, 17, ink());
    say(pen, graph.base[last] + countUpTo(graph.changes[last], state.now), x, y + 4, { size: 12, weight: "600", align: "center", color: paper() });
  }
  return hot;
}
