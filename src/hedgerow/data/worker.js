// For a service worker a page has one address, whatever mark it is asked for with.
(()=>{
let plain=PLAIN,
url=Object.getOwnPropertyDescriptor(Request.prototype,"url"),
clean=r=>{
let is=r instanceof Request,u=is?url.get.call(r):""+r,p=plain(u);
return p==u?r:is?new Request(p,{headers:r.headers}):p};
Object.defineProperty(Request.prototype,"url",{...url,get(){return plain(url.get.call(this))}});
for(let [c,names] of[[Cache,["match","matchAll","put","delete","keys"]],[CacheStorage,["match"]]])
for(let name of names){
let f=c.prototype[name];
c.prototype[name]=function(r,...more){return arguments.length?f.call(this,clean(r),...more):f.call(this)}}
})()
