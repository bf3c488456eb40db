import { useSearch } from "@tanstack/react-router";
import SignInPage from "./sign-in";

export default function SignInRoute() {
  const { next } = useSearch({ from: "/sign-in" });
  return <SignInPage next={next} />;
}
