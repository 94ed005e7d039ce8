// The look-ahead mask as a triangle.

const NAMESPACE = "http://www.w3.org/2000/svg";

/** Draw which of `count` places each token may see: row t sees columns 0 to t; the row `chosen` is marked. */
export function drawMask(container, count, chosen) {
  const svg = shape("svg", {
    viewBox: `0 0 ${count} ${count}`,
    role: "img",
    "aria-label": `Token ${chosen + 1} of ${count} sees ${chosen + 1} of ${count} places: the start and what is before it`,
  });
  for (let row = 0; row < count; row += 1) {
    const kind = row === chosen ? "now" : "may";
    svg.append(shape("rect", { class: kind, x: 0, y: row, width: row + 1, height: 1 }));
    if (row < count - 1) svg.append(shape("rect", { class: "hidden", x: row + 1, y: row, width: count - row - 1, height: 1 }));
  }
  for (let line = 1; line < count; line += 1) {
    svg.append(shape("path", { class: "line", d: `M${line} 0V${count}M0 ${line}H${count}` }));
  }
  container.replaceChildren(svg);
}

function shape(name, attributes) {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
