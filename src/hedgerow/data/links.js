// Takes the mark from a link or form before a script of the page can look at it, and puts it back if no script opened it.
// It runs once in a document: a script that exchanges the body of the page would run it again.
document["~"]||(document["~"]=1,(()=>{
let p=PLAIN,m=new WeakMap,l=location.href,
// A hidden link has no box.
c=(e,s)=>{
let n=e.composedPath()[0];
if(n.closest&&(n=n.closest("a,form"))&&(n.localName!="a"||n.getClientRects()[0])){
let k=n.localName=="a"?"href":"action",v=n.getAttribute(k)||"";
if(!s)p(v)!=v&&(m.set(n,v),n.setAttribute(k,p(v)));
else if(m.has(n)&&p(m.get(n))==v)n.setAttribute(k,m.get(n));
for(let i of n.querySelectorAll('[type=hidden][name="~"]'))i.disabled=!s}},
h=e=>c(e),
s=e=>e.defaultPrevented||c(e,1);
p(l)!=l&&history.replaceState(history.state,"",p(l));
for(let t of["pointerover","focusin","click","submit"])addEventListener(t,h,true);
// The last of all listeners: it is registered while the event is on its way down.
for(let t of["click","auxclick","submit","contextmenu","dragstart"])document.addEventListener(t,()=>{
removeEventListener(t,s);
addEventListener(t,s)},true)
})())
