// What the scripts share: elements of a page, and the tip beside the pointer.
function make(kind, attributes, words) {
  const element = document.createElement(kind)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  if (words) element.textContent = words
  return element
}

// A tip at a place of the window; none where there are no words.
function showTip(tip, words, left, top) {
  tip.style.display = words ? "block" : "none"
  if (!words) return
  tip.textContent = words
  tip.style.left = `${Math.min(left, window.innerWidth - tip.offsetWidth - 8)}px`
  tip.style.top = `${top}px`
}

