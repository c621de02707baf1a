// The figures to draw, and the point that is chosen.
(function () {
  "use strict";
  const BEST = "#c8553d", OTHER = "#3c7dc4";
  const data = JSON.parse(document.getElementById("data").textContent);
  const x = document.getElementById("x"), y = document.getElementById("y");
  const place = document.getElementById("chosen");

  function model(name) {
    return Bokeh.documents.map((page) => page.get_model_by_name(name)).find((found) => found);
  }

  function loss(point, name) {
    return data.moreIsBetter.includes(name) ? -point.figures[name] : point.figures[name];
  }

  // Those that no other beats: in the order of both figures, each that lowers the second.
  function front(first, second) {
    const isHostCompared = [first, second].includes("host_nodes");
    const pairs = data.points.map((point, at) => [loss(point, first), loss(point, second), at])
      .filter((pair) => isHostCompared || data.points[pair[2]].isComparable);
    pairs.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const best = new Set();
    let lowest = Infinity, last = null;
    for (const [one, two, at] of pairs) {
      const isEqual = last !== null && last[0] === one && last[1] === two;
      if (two < lowest || isEqual) { best.add(at); lowest = two; last = [one, two]; }
    }
    return best;
  }

  function draw() {
    const chart = model("front"), source = model("points");
    const dots = chart.renderers[0].glyph;
    dots.x = { field: x.value };
    dots.y = { field: y.value };
    chart.below[0].axis_label = x.value;
    chart.left[0].axis_label = y.value;
    const best = front(x.value, y.value);
    source.data = { ...source.data, colour: data.points.map((_, at) => (best.has(at) ? BEST : OTHER)) };
  }

  function cell(row, kind, text) {
    const made = row.appendChild(document.createElement(kind));
    made.textContent = text;
    return made;
  }

  function number(value) {
    if (value === null) return "";
    return Math.abs(value) >= 1000 || Number.isInteger(value)
      ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : Number(value).toPrecision(4);
  }

  // A command with a button that copies it; where the browser lets no page copy, it marks it.
  function command(text) {
    const row = place.appendChild(document.createElement("p"));
    row.className = "command";
    const code = row.appendChild(document.createElement("code"));
    code.textContent = text;
    const button = row.appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "Copied" : "Marked";
    });
  }

  function show(at) {
    const point = data.points[at];
    place.replaceChildren();
    if (!point) return;
    place.appendChild(document.createElement("h3")).textContent = point.difference;
    const networks = Object.keys(point.networks);
    const wide = place.appendChild(document.createElement("div"));
    wide.className = "wide";
    const table = wide.appendChild(document.createElement("table"));
    const head = table.createTHead().insertRow();
    const names = Object.keys(point.networks[networks[0]]);
    ["network", ...names].forEach((name) => cell(head, "th", name));
    const body = table.createTBody();
    networks.forEach((network) => {
      const row = body.insertRow();
      const name = cell(row, "td", point.profiles[network] ? "" : network);
      if (point.profiles[network]) {
        const link = name.appendChild(document.createElement("a"));
        link.href = point.profiles[network];
        link.textContent = network;
        link.title = "Where its cycles go";
      }
      names.forEach((name) => { cell(row, "td", number(point.networks[network][name])).className = "number"; });
    });
    networks.filter((network) => !point.profiles[network]).forEach((network) => {
      place.appendChild(document.createElement("p")).textContent = `Where the cycles of ${network} go:`;
      command(point.commands[network]);
    });
    document.querySelectorAll("tr.chosen").forEach((row) => row.classList.remove("chosen"));
    document.querySelector(`a[data-point="${at}"]`).closest("tr").classList.add("chosen");
  }

  function begin() {
    const source = model("points");
    draw();
    x.addEventListener("change", draw);
    y.addEventListener("change", draw);
    source.selected.properties.indices.change.connect(() => show(source.selected.indices[0]));
    document.querySelectorAll("a[data-point]").forEach((link) => {
      link.addEventListener("click", () => { source.selected.indices = [Number(link.dataset.point)]; });
    });
  }

  function whenDrawn() {
    if (window.Bokeh && Bokeh.documents.length && model("points")) begin();
    else setTimeout(whenDrawn, 50);
  }
  if (x) whenDrawn();
})();
