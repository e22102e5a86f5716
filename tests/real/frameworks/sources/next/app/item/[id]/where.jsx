"use client";
import { usePathname, useSearchParams } from "next/navigation";

export function Where() {
  return <p>{`At ${usePathname()}?${useSearchParams()}`}</p>;
}
