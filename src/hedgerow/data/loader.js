// Loads the script of the page after the event "load", which waits for scripts that are there before it, and after the
// next frame is shown.
// A page that takes longer to load than people wait for it gets the script meanwhile.
(d=>{
let o=d.currentScript,n=d.createElement("script"),
f=()=>{
if(!n.src){
for(let k in o.dataset)n.dataset[k]=o.dataset[k];
n.nonce=o.nonce;
n.src=o.dataset.src;
d.head.append(n)}};
d.readyState=="complete"?f():(addEventListener("load",()=>requestAnimationFrame(()=>setTimeout(f))),setTimeout(f,2e3))
})(document)
