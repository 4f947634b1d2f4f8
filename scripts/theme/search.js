// Searches the sections of all pages: every word has to be there; titles and headings count more.
"use strict";
const up = document.currentScript.dataset.up;
const input = document.getElementById("search");
const found = document.getElementById("found");
const RESULTS_MAX = 12;

function score(section, words) {
  let total = 0;
  for (const word of words) {
    const inTitle = section.title.toLowerCase().includes(word);
    const inHeading = section.heading.toLowerCase().includes(word);
    const inText = section.text.toLowerCase().includes(word);
    if (!inTitle && !inHeading && !inText) return 0;
    total += (inTitle ? 4 : 0) + (inHeading ? 8 : 0) + (inText ? 1 : 0);
  }
  return total;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 50);
  return (at > 0 ? "… " : "") + text.slice(at, at + 160);
}

function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  const best = words.length === 0 ? [] : window.kaaSections
    .map((section) => [score(section, words), section])
    .filter(([points]) => points > 0)
    .sort((one, other) => other[0] - one[0])
    .slice(0, RESULTS_MAX);
  for (const [, section] of best) {
    const link = document.createElement("a");
    link.href = up + section.url;
    const heading = section.heading === section.title ? "" : ` › ${section.heading}`;
    link.append(section.title + heading);
    const text = document.createElement("small");
    text.append(excerpt(section.text, words[0]));
    link.append(text);
    const item = document.createElement("li");
    item.append(link);
    found.append(item);
  }
  if (words.length > 0 && best.length === 0) found.append("Nothing found.");
  found.hidden = words.length === 0;
  choose(0);
}

function choose(number) {
  const links = [...found.querySelectorAll("a")];
  links.forEach((link, place) => link.classList.toggle("chosen", place === number));
  links[number]?.scrollIntoView({ block: "nearest" });
}

input.addEventListener("input", show);
input.addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  const at = links.findIndex((link) => link.classList.contains("chosen"));
  if (event.key === "ArrowDown" && at < links.length - 1) choose(at + 1);
  else if (event.key === "ArrowUp" && at > 0) choose(at - 1);
  else if (event.key === "Enter" && links[at]) links[at].click();
  else if (event.key === "Escape") input.blur();
  else return;
  event.preventDefault();
});
input.addEventListener("blur", () => setTimeout(() => { found.hidden = true; }, 200));
input.addEventListener("focus", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
});
// On a narrow screen the list of pages is closed, on a wide one it is always open.
const pages = document.querySelector("nav details");
const isWide = window.matchMedia("(min-width: 48rem)");
const follow = () => { pages.open = isWide.matches; };
isWide.addEventListener("change", follow);
follow();
