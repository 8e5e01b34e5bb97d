(* A tool for other files: `ident` proves identities of commutative rings, as `ring` would.
   Plain mathcomp has no such tactic. What it proves is checked by Coq like everything else. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Tool: ident proves identities of commutative rings. Both sides are expanded into
   sums of monomials, and equal monomials are collected. ---- *)
Module Ident.
Inductive expr := Var of nat | Cst of nat | Add of expr & expr | Mul of expr & expr
                | Opp of expr | Pow of expr & nat | Nat of expr & nat.
Definition poly := seq (int * seq nat).             (* coefficients and sorted monomials *)
Fixpoint ins (t : int * seq nat) (p : poly) : poly :=
  if p is t' :: p' then
    if t.2 == t'.2 then if t.1 + t'.1 == 0 then p' else (t.1 + t'.1, t.2) :: p'
    else t' :: ins t p'
  else [:: t].
Definition add (p q : poly) := foldr ins q p.
Definition mul1 (t : int * seq nat) (q : poly) : poly :=
  [seq (t.1 * u.1, sort leq (t.2 ++ u.2)) | u <- q].
Definition mul (p q : poly) := foldr (fun t => add (mul1 t q)) [::] p.
Fixpoint norm e : poly := match e with
  | Var i => [:: (1, [:: i])] | Cst n => if n is 0%N then [::] else [:: (n%:Z, [::])]
  | Add a b => add (norm a) (norm b) | Mul a b => mul (norm a) (norm b)
  | Nat a n => if n is 0%N then [::] else mul1 (n%:Z, [::]) (norm a)
  | Opp a => mul1 (- 1, [::]) (norm a) | Pow a n => iter n (mul (norm a)) [:: (1, [::])] end.
Section Eval.
Variables (R : comRingType) (env : seq R).
Fixpoint eval e : R := match e with
  | Var i => nth 0 env i | Cst n => n%:R | Add a b => eval a + eval b
  | Mul a b => eval a * eval b | Opp a => - eval a | Pow a n => eval a ^+ n
  | Nat a n => eval a *+ n end.
Definition mono (m : seq nat) : R := \prod_(i <- m) nth 0 env i.
Definition val (p : poly) : R := \sum_(t <- p) t.1%:~R * mono t.2.
Lemma val_cons t p : val (t :: p) = t.1%:~R * mono t.2 + val p.
Proof. by rewrite /val big_cons. Qed.
Lemma val_ins t p : val (ins t p) = t.1%:~R * mono t.2 + val p.
Proof.
elim: p => [|t' p IH] /=; first by rewrite val_cons.
case: eqP => [e|_]; last by rewrite !val_cons IH addrCA.
case: eqP => [z|_]; rewrite !val_cons /= e addrA -mulrDl -intrD; last by [].
by rewrite z mul0r add0r.
Qed.
Lemma val_add p q : val (add p q) = val p + val q.
Proof.
elim: p => [|t p IH] /=; first by rewrite /val big_nil add0r.
by rewrite val_ins IH val_cons addrA.
Qed.
Lemma val_mul1 t q : val (mul1 t q) = t.1%:~R * mono t.2 * val q.
Proof.
elim: q => [|u q IH] /=; first by rewrite /val big_nil mulr0.
rewrite !val_cons IH mulrDr intrM; congr (_ + _).
by rewrite /mono (perm_big _ (permEl (perm_sort _ _))) big_cat /= mulrACA.
Qed.
Lemma val_mul p q : val (mul p q) = val p * val q.
Proof.
elim: p => [|t p IH] /=; first by rewrite /val big_nil mul0r.
by rewrite val_add val_mul1 IH val_cons mulrDl.
Qed.
Lemma normE e : val (norm e) = eval e.
Proof.
elim: e => [i|[|n]|a IHa b IHb|a IHa b IHb|a IHa|a IHa n|a IHa n] /=;
  rewrite ?val_add ?val_mul ?IHa ?IHb //.
- by rewrite val_cons /val /mono big_nil big_seq1 mul1r addr0.
- by rewrite /val big_nil.
- by rewrite val_cons /val /mono !big_nil mulr1 addr0.
- by rewrite val_mul1 IHa /mono big_nil mulr1 mulN1r.
- elim: n => [|n IHn]; last by rewrite exprS -IHn -IHa -val_mul.
  by rewrite /= val_cons /val /mono !big_nil mulr1 addr0.
case: n => [|n]; first by rewrite /val big_nil.
by rewrite val_mul1 IHa /mono big_nil mulr1 mulr_natl.
Qed.
Lemma ident a b : norm (Add a (Opp b)) = [::] -> eval a = eval b.
Proof. by move=> e; apply/eqP; rewrite -subr_eq0 -[_ - _](normE (Add a (Opp b))) e /val big_nil.
  Qed.
End Eval.
Ltac find x l := match l with
  | x :: _ => constr:(0%N) | _ :: ?l' => let n := find x l' in constr:(S n) end.
Ltac insert x l := match l with
  | nil => constr:(x :: l) | x :: _ => l
  | ?y :: ?l' => let r := insert x l' in constr:(y :: r) end.
Ltac closed n := lazymatch n with
  | O => constr:(true) | S ?m => closed m | _ => constr:(false) end.
Ltac vars t l := lazymatch t with
  | @GRing.add _ ?a ?b => let l' := vars a l in vars b l'
  | @GRing.mul _ ?a ?b => let l' := vars a l in vars b l'
  | @GRing.opp _ ?a => vars a l
  | @GRing.exp _ ?a ?n => lazymatch closed n with true => vars a l | _ => insert t l end
  | @GRing.natmul _ ?a ?n => lazymatch closed n with true => vars a l | _ => insert t l end
  | GRing.one _ => l | GRing.zero _ => l
  | _ => insert t l end.
Ltac reify t l := lazymatch t with
  | @GRing.add _ ?a ?b => let a' := reify a l in let b' := reify b l in constr:(Add a' b')
  | @GRing.mul _ ?a ?b => let a' := reify a l in let b' := reify b l in constr:(Mul a' b')
  | @GRing.opp _ ?a => let a' := reify a l in constr:(Opp a')
  | @GRing.exp _ ?a ?n => lazymatch closed n with
      | true => let a' := reify a l in constr:(Pow a' n)
      | _ => let i := find t l in constr:(Var i) end
  | @GRing.natmul _ ?a ?n => lazymatch closed n with
      | true => let a' := reify a l in constr:(Nat a' n)
      | _ => let i := find t l in constr:(Var i) end
  | GRing.one _ => constr:(Cst 1) | GRing.zero _ => constr:(Cst 0)
  | _ => let n := find t l in constr:(Var n) end.
End Ident.
Ltac ident := match goal with |- @eq ?T ?a ?b =>
  let l := Ident.vars a (@nil T) in let l := Ident.vars b l in
  let a' := Ident.reify a l in let b' := Ident.reify b l in
  change (Ident.eval l a' = Ident.eval l b'); apply: Ident.ident; vm_compute; reflexivity end.
