// Runs in a worker, behind the hash function: searches the number from which a digest was made, and tells how far it is.
onmessage = ({ data: { salt, digest, most, from } }) => {
  for (let number = from || 0; number <= most; number += 1) {
    if (sha256(salt + number) === digest) {
      postMessage([number, true]);
      return;
    }
    if (number % 500 === 499) postMessage([number, false]);
  }
};
