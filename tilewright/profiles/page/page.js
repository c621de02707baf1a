// A layer's name or box shows the layer in the time line; a button shows repeated blocks once, or all layers.
(function () {
  "use strict";

  function timeLine() {
    return Bokeh.documents.map((page) => page.get_model_by_name("time")).find((figure) => figure);
  }

  function show(link) {
    const figure = timeLine();
    const first = Number(link.dataset.first), last = Number(link.dataset.last);
    const margin = Math.max(1, (last - first) * 0.02);
    figure.x_range.setv({ start: first - margin, end: last + margin });
  }

  document.querySelectorAll("button.fold").forEach((button) => {
    const folded = document.getElementById("folded"), whole = document.getElementById("all-layers");
    const show = button.textContent;
    button.addEventListener("click", () => {
      whole.hidden = !whole.hidden;
      folded.hidden = !whole.hidden;
      button.textContent = whole.hidden ? show : "Show repeated blocks once";
      button.setAttribute("aria-expanded", String(!whole.hidden));
    });
  });

  document.querySelectorAll("a[data-first]").forEach((link) => link.addEventListener("click", () => show(link)));
})();
