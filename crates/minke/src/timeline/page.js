"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const KINDS = [
    ["volumes", "volumes"], ["sandbox", "sandbox"], ["pull", "pull"], ["create", "create"], ["start", "start"],
    ["postStart", "postStart hook"], ["running", "running, not ready"], ["ready", "ready"], ["backOff", "back-off"],
    ["stopping", "stopping"], ["cleaningUp", "cleaning up"],
  ];
  const WORDS = Object.fromEntries(KINDS);
  const PALE = new Set(["running", "backOff", "stopping"]);
  const HEIGHT = 24;

  // Times are microseconds; `view` is what the width of the track shows.
  const begin = data.begin, whole = Math.max(data.end - data.begin, 1000);
  const full = [begin - whole * 0.015, begin + whole * 1.03];
  let view = full.slice();
  let rows = [], chosen = null, width = 1;

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const trim = (value) => String(Number(value.toFixed(2)));
  const length = (us) => {
    const n = Math.abs(us), sign = us < 0 ? "−" : "";
    if (n < 1e3) return `${sign}${Math.round(n)} µs`;
    if (n < 1e6) return `${sign}${trim(n / 1e3)} ms`;
    if (n < 6e7) return `${sign}${trim(n / 1e6)} s`;
    if (n < 3.6e9) return `${sign}${Math.floor(n / 6e7)} min ${trim(n / 1e6 % 60)} s`;
    if (n < 8.64e10) return `${sign}${Math.floor(n / 3.6e9)} h ${Math.floor(n / 6e7 % 60)} min`;
    return `${sign}${Math.floor(n / 8.64e10)} d ${Math.floor(n / 3.6e9 % 24)} h`;
  };
  // An init container is never ready: it runs to its end.
  const wordsOf = (item) => (item.bar.kind === "running" && item.lane.kind === "init" ? "running" : WORDS[item.bar.kind]);
  const origin = Date.parse(data.origin);
  const wall = (at) => new Date(origin + at / 1000).toISOString().replace("T", " ").replace("Z", " UTC");
  const podName = (pod) => (pod.namespace === "default" ? pod.name : `${pod.namespace}/${pod.name}`);

  function choose(text) {
    const wanted = text.trim().toLowerCase();
    rows = [];
    for (const pod of data.pods) {
      const podFits = `${pod.namespace}/${pod.name} ${pod.uid} ${pod.phase}`.toLowerCase().includes(wanted);
      const fits = pod.lanes.filter((lane) => lane.kind === null || podFits || lane.name.toLowerCase().includes(wanted));
      if (!podFits && fits.length === 1) continue;
      for (const lane of fits) {
        const items = [
          ...lane.bars.map((bar) => ({ bar, at: bar.from, pod, lane })),
          ...lane.marks.map((mark) => ({ mark, at: mark.at, pod, lane })),
        ].sort((a, b) => a.at - b.at);
        rows.push({ pod, lane, items });
      }
    }
    $("rows").style.height = `${rows.length * HEIGHT + 8}px`;
  }

  const x = (at) => (at - view[0]) / (view[1] - view[0]) * width;

  function ticks() {
    const span = view[1] - view[0], raw = span / Math.max(width / 110, 2);
    const power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
    if (raw > 1e7) step = [15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 18e8, 36e8, 72e8, 216e8, 432e8, 864e8].find((n) => n >= raw) || step;
    const found = [];
    for (let at = Math.ceil((view[0] - begin) / step) * step; at + begin <= view[1]; at += step) found.push(at);
    return found;
  }

  function drawAxis(marks) {
    $("ticks").replaceChildren(...marks.map((at) => {
      const tick = make("span", "", at === 0 ? "0" : length(at));
      tick.style.left = `${x(at + begin)}px`;
      return tick;
    }));
  }

  function drawItem(item) {
    const picked = chosen && chosen.bar === item.bar && chosen.mark === item.mark;
    if (item.bar) {
      const { bar } = item;
      const from = Math.max(x(bar.from), -4), to = Math.min(x(bar.to), width + 4);
      if (to < 0 || from > width) return null;
      const wide = Math.max(to - from, 2);
      const element = make("div", `bar ${bar.kind}${bar.failed ? " failed" : ""}${bar.open ? " open" : ""}`);
      if (PALE.has(bar.kind) && !bar.failed) element.classList.add("pale");
      if (wide < 14) element.classList.add("tight");
      element.style.cssText = `left:${from}px;width:${wide}px;--c:var(--${bar.kind})`;
      if (item.lane.kind !== null) {
        const again = bar.attempt > 0 && (bar.kind === "ready" || bar.kind === "running") ? ` #${bar.attempt}` : "";
        const words = `${wordsOf(item)}${again}`, whole = `${words} ${length(bar.to - bar.from)}`;
        element.textContent = [whole, words, ""].find((text) => text.length * 6.4 + 12 < wide);
      }
      if (picked) element.classList.add("chosen");
      element.item = item;
      return element;
    }
    const at = x(item.mark.at);
    if (at < -10 || at > width + 10) return null;
    const element = make("div", `mark ${item.mark.tone}`, item.mark.sign);
    element.style.left = `${at}px`;
    if (picked) element.classList.add("chosen");
    element.item = item;
    return element;
  }

  function drawRow(row, index, marks) {
    const element = make("div", row.lane.kind === null ? "row pod" : "row");
    element.style.top = `${index * HEIGHT}px`;
    const name = make("div", "name");
    // Pods of one workload differ in the end of their names.
    const whole = row.lane.kind === null ? podName(row.pod) : row.lane.name;
    const text = make("span", "text"), cut = whole.length > 16 ? whole.length - 7 : whole.length;
    text.append(make("span", "front", whole.slice(0, cut)), make("span", "", whole.slice(cut)));
    name.append(text);
    let aside = row.lane.kind === "main" ? "" : row.lane.kind;
    if (row.lane.kind === null) {
      const took = row.pod.startup === null ? "" : ` in ${length(row.pod.startup)}`;
      aside = row.pod.phase === "Pending" || row.pod.phase === "Failed" ? row.pod.phase : `${row.pod.phase}${took}`;
      name.title = `${row.pod.namespace}/${row.pod.name} (${row.pod.uid})`;
    }
    name.append(make("span", "aside", aside));
    if (row.lane.kind !== null) name.title = row.lane.name;
    const track = make("div", "track");
    for (const at of marks) {
      const line = make("div", "grid");
      line.style.left = `${x(at + begin)}px`;
      track.append(line);
    }
    if (row.lane.kind === null && row.items.length > 0) {
      const ends = row.items.map((item) => (item.bar ? item.bar.to : item.at));
      const from = Math.max(x(row.items[0].at), 0), to = Math.min(x(Math.max(...ends)), width);
      const life = make("div", "span");
      life.style.cssText = `left:${from}px;width:${Math.max(to - from, 0)}px`;
      track.append(life);
    }
    const bars = [], signs = [];
    for (const item of row.items) {
      const drawn = drawItem(item);
      if (drawn) (item.bar ? bars : signs).push(drawn);
    }
    track.append(...bars, ...signs);
    element.append(name, track);
    return element;
  }

  function draw() {
    width = Math.max($("ticks").clientWidth - ($("scroll").offsetWidth - $("scroll").clientWidth), 50);
    const marks = ticks();
    drawAxis(marks);
    const top = $("scroll").scrollTop, tall = $("scroll").clientHeight;
    const first = Math.max(Math.floor(top / HEIGHT) - 8, 0), last = Math.min(Math.ceil((top + tall) / HEIGHT) + 8, rows.length);
    const drawn = [];
    for (let i = first; i < last; i++) drawn.push(drawRow(rows[i], i, marks));
    $("rows").replaceChildren(...drawn);
    if (rows.length === 0) $("rows").replaceChildren(make("p", "noscript", data.pods.length ? "nothing fits the filter" : "no pods"));
  }

  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };

  function show(item) {
    const detail = $("detail");
    detail.replaceChildren();
    if (!item) {
      detail.append(make("div", "hint", "Point at something, or click the chart and use the arrow keys. Scroll with Ctrl to zoom, drag to pan, Enter zooms to what is chosen, 0 shows everything."));
      return;
    }
    const { pod, lane, bar, mark } = item;
    const what = bar ? wordsOf(item) + (bar.failed ? " (failed)" : "") + (bar.open ? " (goes on)" : "") : mark.words;
    detail.append(make("div", "head", `${podName(pod)}${lane.kind === null ? "" : ` › ${lane.name}`}: ${what}`));
    const list = make("dl");
    const add = (term, text) => {
      const pair = make("div");
      pair.append(make("dt", "", term), make("dd", "", text));
      list.append(pair);
    };
    if (bar) add("took", length(bar.to - bar.from));
    add(bar ? "from" : "at", `${length(item.at - begin)} (${wall(item.at)})`);
    if (lane.kind !== null) add("attempt", String((bar || mark).attempt));
    if (bar && bar.detail) add("detail", bar.detail);
    if (lane.kind === null && pod.dropped > 0) add("not kept", `${pod.dropped} transitions between the first and the newest`);
    detail.append(list);
  }

  function zoom(factor, at) {
    const middle = at === undefined ? (view[0] + view[1]) / 2 : at;
    const span = Math.min(Math.max((view[1] - view[0]) * factor, 50), (full[1] - full[0]) * 1.5);
    const share = (middle - view[0]) / (view[1] - view[0]);
    view = [middle - span * share, middle + span * (1 - share)];
    redraw();
  }
  function pan(share) {
    const by = (view[1] - view[0]) * share;
    view = [view[0] + by, view[1] + by];
    redraw();
  }
  function fit() { view = full.slice(); redraw(); }
  function startUp() {
    let from = Infinity, to = -Infinity;
    for (const pod of data.pods) {
      const mark = pod.lanes[0].marks[0];
      if (pod.startup === null || !mark) continue;
      from = Math.min(from, mark.at);
      to = Math.max(to, mark.at + pod.startup);
    }
    if (from < to) {
      view = [from - (to - from) * 0.03, to + (to - from) * 0.06];
      redraw();
    }
  }

  function pick(item, scroll) {
    chosen = item;
    if (item && scroll) {
      const index = rows.findIndex((row) => row.lane === item.lane), top = index * HEIGHT;
      if (top < $("scroll").scrollTop) $("scroll").scrollTop = top;
      if (top + HEIGHT > $("scroll").scrollTop + $("scroll").clientHeight) $("scroll").scrollTop = top + HEIGHT - $("scroll").clientHeight;
      const span = view[1] - view[0], to = item.bar ? item.bar.to : item.at;
      if (to < view[0] || item.at > view[1]) view = [item.at - span * 0.2, item.at + span * 0.8];
    }
    show(item);
    redraw();
  }

  function step(sideways, down) {
    const filled = rows.filter((row) => row.items.length > 0);
    if (filled.length === 0) return;
    let index = chosen ? filled.findIndex((row) => row.lane === chosen.lane) : -1;
    if (index < 0) { pick(filled[0].items[0], true); return; }
    if (down !== 0) {
      index = Math.min(Math.max(index + down, 0), filled.length - 1);
      const nearest = filled[index].items.reduce((a, b) => (Math.abs(b.at - chosen.at) < Math.abs(a.at - chosen.at) ? b : a));
      pick(nearest, true);
      return;
    }
    const items = filled[index].items;
    const at = items.findIndex((item) => item.bar === chosen.bar && item.mark === chosen.mark);
    pick(items[Math.min(Math.max(at + sideways, 0), items.length - 1)], true);
  }

  function around(item) {
    if (!item) return;
    const from = item.at, to = item.bar ? item.bar.to : item.at, span = Math.max((to - from) * 1.4, 200);
    view = [(from + to - span) / 2, (from + to + span) / 2];
    redraw();
  }

  const keys = {
    ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    "+": () => zoom(0.6, chosen ? chosen.at : undefined), "=": () => zoom(0.6, chosen ? chosen.at : undefined),
    "-": () => zoom(1 / 0.6, chosen ? chosen.at : undefined), 0: fit, s: startUp,
    "[": () => pan(-0.3), "]": () => pan(0.3), Enter: () => around(chosen), Escape: () => pick(null),
  };
  $("scroll").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("scroll").addEventListener("scroll", redraw);
  $("scroll").addEventListener("wheel", (event) => {
    const box = $("ticks").getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.0025), view[0] + (event.clientX - box.left) / width * (view[1] - view[0]));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / width);
    }
  }, { passive: false });
  let held = null;
  $("scroll").addEventListener("pointerdown", (event) => {
    const inTrack = event.target.closest(".track");
    if (event.button !== 0 || !inTrack) return;
    held = { x: event.clientX, view: view.slice(), moved: false, item: event.target.item || null };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const by = event.clientX - held.x;
    if (!held.moved && Math.abs(by) < 4) return;
    held.moved = true;
    document.body.classList.add("dragging");
    const shift = by / width * (held.view[1] - held.view[0]);
    view = [held.view[0] - shift, held.view[1] - shift];
    redraw();
  });
  addEventListener("pointerup", () => {
    if (held && !held.moved) pick(held.item);
    held = null;
    document.body.classList.remove("dragging");
  });
  $("rows").addEventListener("pointerover", (event) => {
    if (held && held.moved) return;
    show(event.target.item || chosen);
  });
  $("rows").addEventListener("dblclick", (event) => around(event.target.item));
  $("rows").addEventListener("pointerleave", () => show(chosen));
  $("fit").addEventListener("click", fit);
  $("startup").addEventListener("click", startUp);
  $("in").addEventListener("click", () => zoom(0.6));
  $("out").addEventListener("click", () => zoom(1 / 0.6));
  $("filter").addEventListener("input", (event) => { choose(event.target.value); redraw(); });
  addEventListener("resize", redraw);

  const used = new Set(data.pods.flatMap((pod) => pod.lanes.flatMap((lane) => lane.bars.map((bar) => bar.kind))));
  for (const [kind, words] of KINDS.filter(([kind]) => used.has(kind))) {
    const entry = make("li"), swatch = make("span", `swatch bar ${kind}`);
    swatch.style.cssText = `position:static;--c:var(--${kind})`;
    entry.append(swatch, make("span", "", words));
    $("legend").append(entry);
  }
  for (const [tone, sign, words] of [["good", "✓", "ended well"], ["bad", "1", "failed, exit code"]]) {
    if (!data.pods.some((pod) => pod.lanes.some((lane) => lane.marks.some((mark) => mark.tone === tone)))) continue;
    const entry = make("li"), swatch = make("span", `mark ${tone}`, sign);
    swatch.style.cssText = "position:static;margin:0";
    entry.append(swatch, make("span", "", words));
    $("legend").append(entry);
  }
  const containers = data.pods.reduce((n, pod) => n + pod.lanes.length - 1, 0);
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  $("summary").textContent = `${plural(data.pods.length, "pod")}, ${plural(containers, "container")}, ${length(whole)} from ${wall(begin)}`;
  choose("");
  show(null);
  draw();
})();
