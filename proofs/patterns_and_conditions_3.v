(* Page 12, "Which sparse patterns lose nothing?", continued: Proposition 12.25. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 12.25 (Parts merge). *)
Section Merge.
Variables (S : zmodType) (F : fieldType) (V : lmodType F) (e : S -> F).
Hypothesis e_neq0 : forall x, e x != 0.
Hypothesis e_add : forall x y, e (x + y) = e x * e y.
Variables (n : nat) (a : 'I_n -> S) (v : 'I_n -> V).      (* scores and values *)
(* softmax over a set alone: its output; lambda is a logarithm of its sum of exponentials *)
Definition output (set : {set 'I_n}) := \sum_(j in set) softmax_on e set a j *: v j.
Definition log_sum (set : {set 'I_n}) (lambda : S) := e lambda = \sum_(j in set) e (a j).

Lemma outputE set : output set = \sum_(j in set) (e (a j) / \sum_(k in set) e (a k)) *: v j.
Proof. by apply: eq_bigr => j js; rewrite /softmax_on js. Qed.
Theorem merge m (part : 'I_m -> {set 'I_n}) (lambdas : 'I_m -> S) (lambda : S) :
  (forall r r', r != r' -> [disjoint part r & part r']) ->
  (forall r, log_sum (part r) (lambdas r)) -> e lambda = \sum_r e (lambdas r) ->
  log_sum (\bigcup_r part r) lambda /\
  output (\bigcup_r part r) = \sum_r e (lambdas r - lambda) *: output (part r).
Proof.
move=> apart logs lambdaE.
have e_sub x y : e (x - y) = e x / e y.
  by apply: (canRL (mulfK (e_neq0 y))); rewrite -e_add subrK.
have union : log_sum (\bigcup_r part r) lambda.
  rewrite /log_sum lambdaE partition_disjoint_bigcup //; apply: eq_bigr => r _; exact: logs.
split=> //; rewrite outputE -union partition_disjoint_bigcup //; apply: eq_bigr => r _.
rewrite outputE scaler_sumr; apply: eq_bigr => j _; rewrite scalerA -logs e_sub.
by rewrite [X in _ = X *: _]mulrC mulrA divfK.
Qed.
End Merge.
(* In particular for exp and ln: lambda is the logarithm of the sum of all exponentials. *)
Corollary merge_exp (R : realFieldType) (exp ln : R -> R) (V : lmodType R) n m (a : 'I_n -> R)
  (v : 'I_n -> V) (part : 'I_m -> {set 'I_n}) : exponential exp -> logarithm exp ln ->
  let lambda r := ln (\sum_(j in part r) exp (a j)) in
  let total := ln (\sum_(j in \bigcup_r part r) exp (a j)) in
  (0 < m)%N -> (forall r, exists j, j \in part r) ->
  (forall r r', r != r' -> [disjoint part r & part r']) ->
  total = ln (\sum_r exp (lambda r)) /\
  output exp a v (\bigcup_r part r) = \sum_r exp (lambda r - total) *: output exp a v (part r).
Proof.
move=> expE lnE lambda total m0 some apart.
have pos r : 0 < \sum_(j in part r) exp (a j).
  have [j jr] := some r; rewrite (bigD1 j) //= ltr_paddr ?(exp_gt0 expE) //.
  by rewrite sumr_ge0 // => i _; rewrite ltW ?(exp_gt0 expE).
have logs r : log_sum exp a (part r) (lambda r) by apply: lnE.
have totalE : total = ln (\sum_r exp (lambda r)).
  rewrite /total partition_disjoint_bigcup //; congr ln; apply: eq_bigr => r _.
  by rewrite logs.
have sum0 : 0 < \sum_r exp (lambda r).
  rewrite (bigD1 (Ordinal m0)) //= ltr_paddr ?(exp_gt0 expE) //.
  by rewrite sumr_ge0 // => i _; rewrite ltW ?(exp_gt0 expE).
have expT : exp total = \sum_r exp (lambda r) by rewrite totalE lnE.
by split=> //; have [_ ->] := merge (exp_neq0 expE) (expD expE) v apart logs expT.
Qed.
(* two equal scores 0 in two parts, with powers of 2: lambda_r = 0 and lambda = 1 *)
Example merge_2 (v : 'I_2 -> rat^o) : output (fun x : int => 2%:R ^ x : rat) (fun _ => 0) v setT =
  \sum_(r : 'I_2) 2%:R^-1 *: output (fun x : int => 2%:R ^ x : rat) (fun _ => 0) v [set r].
Proof.
have two : 2%:R != 0 :> rat by [].
have [x|x y|r r' rr|r||_ out] := @merge _ _ _ (fun x : int => 2%:R ^ x : rat) _ _ 2 (fun _ => 0) v
  2 (fun r => [set r]) (fun _ => 0) 1.
- exact: expfz_neq0.
- exact: expfzDr.
- by rewrite disjoints1 inE.
- by rewrite /log_sum big_set1.
- by rewrite !big_ord_recl big_ord0.
by rewrite -[RHS]/(\sum_r 2%:R ^ (0 - 1) *: _) -out; congr output; apply/setP => j;
  rewrite inE; apply/esym/bigcupP; exists j; rewrite ?inE.
Qed.
