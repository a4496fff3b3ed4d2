/** Copies a text. False where neither way works, such as over plain http in some browsers. */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Refused by the browser's settings: the old way may still work.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.style.position = "fixed";
  area.style.opacity = "0";
  // Inside of an open dialog, which keeps the focus.
  const open = document.querySelector("[role=dialog], [role=alertdialog]");
  const before = document.activeElement;
  (open ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}
