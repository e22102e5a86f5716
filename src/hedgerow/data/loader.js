// Loads the script of the page after the event "load", which waits for scripts that are there before it, and after the
// next frame is shown.
// A page that takes longer to load than people wait for it gets the script meanwhile.
// It is an asynchronous module, because a browser keeps a page from being parsed until a plain script at its end has run, and
// that script waits for style sheets. A module has no document.currentScript. Its element is the last one of its kind.
(d=>{
let o=[...d.querySelectorAll("[data-src][type=module]")].pop(),n=d.createElement("script"),
f=()=>{
if(!n.src){
for(let k in o.dataset)n.dataset[k]=o.dataset[k];
n.nonce=o.nonce;
n.src=o.dataset.src;
d.head.append(n)}};
d.readyState=="complete"?f():(addEventListener("load",()=>requestAnimationFrame(()=>setTimeout(f))),setTimeout(f,2e3))
})(document)
