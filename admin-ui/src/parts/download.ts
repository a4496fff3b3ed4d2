/**
 * Downloads a file of the engine under the engine's name for it. A link that is marked as a download
 * leaves the page where it is if the engine refuses; going to the address would replace the page.
 */
export function download(address: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = "";
  link.click();
}
