/* In: a tag, its attributes and children. Out: DOM nodes, and figures as words.
   Text only ever enters the page as text nodes, so nothing that the service says can become markup. */

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/* Writing a text that hasn't changed would wake screen readers and layout for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/* Three significant digits: people compare these figures, they don't compute with them. */
export function seconds(value) {
  if (value < 1) return `${Number((value * 1000).toPrecision(3))} ms`;
  return value < 100 ? `${Number(value.toPrecision(3))} s` : span(value);
}

export function span(value_s) {
  const whole = Math.floor(value_s);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

export const percent = (share) => `${Math.round(share * 100)}%`;
export const count = (value) => value.toLocaleString("en");
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
