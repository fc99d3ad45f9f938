// A drawing through training (workbench.figures.training_film): every checkpoint's picture comes once, and the slider,
// the arrow keys and ▶ ask nothing of a server. The SVG is the workbench's own, which escapes every word in it.
const EVERY = 350 // ms between two checkpoints that play

export default function (component) {
  const { data, parentElement } = component
  let holder = parentElement.querySelector(".holder")
  if (!holder) {
    holder = make("div", { class: "holder", tabindex: 0, role: "group", "aria-label": "the checkpoint's drawing" })
    const tip = make("div", { class: "tip" })
    parentElement.append(bar(holder), holder, tip)
    holder.onpointermove = (event) => {
      showTip(tip, event.target.closest("[data-tip]")?.dataset.tip, event.clientX + 14, event.clientY + 18)
    }
    holder.onpointerleave = () => showTip(tip)
  }
  const key = data.frames.join("")
  if (holder.key === key) return
  clearInterval(holder.playing)
  Object.assign(holder, { key, frames: data.frames, labels: data.labels })
  holder.slider.max = data.frames.length - 1
  holder.go(data.at ?? data.frames.length - 1)
}

function bar(holder) {
  const box = make("div", { class: "hops" })
  const play = make("button", { class: "play", "aria-label": "Play through training" }, "▶")
  const before = make("button", { "aria-label": "Checkpoint before" }, "‹")
  const after = make("button", { "aria-label": "Checkpoint after" }, "›")
  const slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "Checkpoint", style: "width: 16rem" })
  const says = make("span", { class: "says", role: "status" })
  const label = make("label", {}, "checkpoint")
  label.append(slider)
  box.append(before, play, after, label, says)
  holder.slider = slider
  holder.go = (to) => {
    holder.at = Math.min(holder.frames.length - 1, Math.max(0, to))
    const left = holder.scrollLeft
    holder.innerHTML = holder.frames[holder.at]
    const svg = holder.querySelector("svg")
    svg.style.setProperty("--wide", svg.viewBox.baseVal.width)
    holder.scrollLeft = left
    slider.value = holder.at
    slider.setAttribute("aria-valuetext", holder.labels[holder.at])
    says.textContent = `${holder.labels[holder.at]} (${holder.at + 1} of ${holder.frames.length})`
    before.disabled = holder.at === 0
    after.disabled = holder.at === holder.frames.length - 1
  }
  const stop = () => {
    clearInterval(holder.playing)
    holder.playing = 0
    play.textContent = "▶"
    play.setAttribute("aria-label", "Play through training")
  }
  const move = (to) => {
    stop()
    holder.go(to)
  }
  before.onclick = () => move(holder.at - 1)
  after.onclick = () => move(holder.at + 1)
  slider.oninput = () => move(Number(slider.value))
  play.onclick = () => {
    if (holder.playing) return stop()
    if (holder.at === holder.frames.length - 1) holder.go(0)
    play.textContent = "⏸"
    play.setAttribute("aria-label", "Pause")
    holder.playing = setInterval(() => {
      holder.go(holder.at + 1)
      if (holder.at === holder.frames.length - 1) stop()
    }, EVERY)
  }
  return box
}
