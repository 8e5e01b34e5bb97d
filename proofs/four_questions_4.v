(* Page 3, "Four questions to a proof" (notebooks/path_decomposition/four_questions.ipynb),
   continued. Proposition 3.8 (What it keeps). The norms are those of four_questions_3.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities four_questions_3.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Keeps.
Variable R : rcfType.

Lemma norm1_ge0 n d (A : 'M[R]_(n.+1, d.+1)) : 0 <= norm1 A. Proof. exact: max_ge0. Qed.
Lemma normoo_ge0 n d (A : 'M[R]_(n.+1, d.+1)) : 0 <= normoo A. Proof. exact: max_ge0. Qed.

(* The composite norm is zero only at zero. *)
Theorem zero_only n d (A : 'M[R]_(n.+1, d.+1)) : composite A = 0 <-> A = 0.
Proof.
split=> [c0|->]; last first.
  rewrite /composite (_ : norm1 0 = 0) ?mul0r ?sqrtr0 //.
  apply/le_anti; rewrite norm1_ge0 andbT; apply: max_le => // j.
  by rewrite /col_sum big1 // => i _; rewrite mxE normr0.
apply/matrixP => i j; rewrite mxE; apply/eqP; rewrite -normr_le0.
have le1 : `|A i j| <= norm1 A.
  by apply: le_trans (max_ge _ j); rewrite /col_sum (bigD1 i) //= ler_addl sumr_ge0.
have leoo : `|A i j| <= normoo A.
  by apply: le_trans (max_ge _ i); rewrite /row_sum (bigD1 j) //= ler_addl sumr_ge0.
have : norm1 A * normoo A <= 0.
  by move/eqP: c0; rewrite /composite sqrtr_eq0.
rewrite leNgt; apply: contraNle => pos.
by rewrite mulr_gt0 // (lt_le_trans pos).
Qed.

(* |AB|_1 <= |A|_1 |B|_1, and so for the row sums. *)
Lemma norm1M n m d (A : 'M[R]_(n.+1, m.+1)) (B : 'M[R]_(m.+1, d.+1)) :
  norm1 (A *m B) <= norm1 A * norm1 B.
Proof.
apply: max_le => [|j]; first by rewrite mulr_ge0 ?norm1_ge0.
apply: (@le_trans _ _ (\sum_k col_sum A k * `|B k j|)).
  rewrite /col_sum; under [X in _ <= X]eq_bigr do rewrite mulr_suml.
  rewrite exchange_big; apply: ler_sum => i _; rewrite mxE (le_trans (ler_norm_sum _ _ _)) //.
  by apply: ler_sum => k _; rewrite normrM.
apply: (@le_trans _ _ (\sum_k norm1 A * `|B k j|)).
  by apply: ler_sum => k _; rewrite ler_wpmul2r // max_ge.
by rewrite -mulr_sumr ler_wpmul2l ?norm1_ge0 // (le_trans _ (max_ge _ j)).
Qed.
Lemma normooM n m d (A : 'M[R]_(n.+1, m.+1)) (B : 'M[R]_(m.+1, d.+1)) :
  normoo (A *m B) <= normoo A * normoo B.
Proof.
apply: max_le => [|i]; first by rewrite mulr_ge0 ?normoo_ge0.
apply: (@le_trans _ _ (\sum_k `|A i k| * row_sum B k)).
  rewrite /row_sum; under [X in _ <= X]eq_bigr do rewrite mulr_sumr.
  rewrite exchange_big; apply: ler_sum => j _; rewrite mxE (le_trans (ler_norm_sum _ _ _)) //.
  by apply: ler_sum => k _; rewrite normrM.
apply: (@le_trans _ _ (\sum_k `|A i k| * normoo B)).
  by apply: ler_sum => k _; rewrite ler_wpmul2l // max_ge.
by rewrite -mulr_suml ler_wpmul2r ?normoo_ge0 // (le_trans _ (max_ge _ i)).
Qed.
(* The composite norm is submultiplicative. *)
Theorem submultiplicative n m d (A : 'M[R]_(n.+1, m.+1)) (B : 'M[R]_(m.+1, d.+1)) :
  composite (A *m B) <= composite A * composite B.
Proof.
rewrite /composite -sqrtrM ?mulr_ge0 ?norm1_ge0 ?normoo_ge0 // ler_wsqrtr //.
by rewrite mulrACA ler_pmul ?norm1_ge0 ?normoo_ge0 ?norm1M ?normooM.
Qed.

(* Cauchy and Schwarz with weights w >= 0. *)
Lemma cauchy m (w t : 'I_m -> R) : (forall i, 0 <= w i) ->
  (\sum_i w i * t i) ^+ 2 <= (\sum_i w i) * \sum_i w i * t i ^+ 2.
Proof.
move=> w0; rewrite -subr_ge0 -(pmulr_rge0 _ (ltr0n R 2)).
have -> : 2%:R * ((\sum_i w i) * (\sum_i w i * t i ^+ 2) - (\sum_i w i * t i) ^+ 2) =
    \sum_i \sum_j w i * w j * (t i - t j) ^+ 2.
  rewrite expr2 mulrBr mulr_natl mulr2n {2}[(\sum_i w i) * _]mulrC mulr_natl mulr2n.
  rewrite !big_distrlr /= -!big_split /= -sumrB; apply: eq_bigr => i _.
  by rewrite -!big_split /= -sumrB; apply: eq_bigr => j _; ident.
by apply: sumr_ge0 => i _; apply: sumr_ge0 => j _; apply: mulr_ge0 (mulr_ge0 _ _) (sqr_ge0 _).
Qed.
Section Spectral.
Variables (n d : nat) (A : 'M[R]_(n.+1, d.+1)).
(* |A y|^2 <= |A|_oo |A|_1 |y|^2 *)
Lemma composite_bounds : bounds A (composite A).
Proof.
split=> [|y]; first exact: sqrtr_ge0.
rewrite !sqnorm_col sqr_sqrtr ?mulr_ge0 ?norm1_ge0 ?normoo_ge0 //.
apply: (@le_trans _ _ (\sum_i normoo A * \sum_j `|A i j| * y j 0 ^+ 2)).
  apply: ler_sum => i _; rewrite mxE -real_normK ?num_real //.
  apply: (@le_trans _ _ ((\sum_j `|A i j| * `|y j 0|) ^+ 2)).
    rewrite ler_expn2r ?nnegrE ?sumr_ge0 // => [j _|]; first by rewrite mulr_ge0.
    by rewrite (le_trans (ler_norm_sum _ _ _)) //; apply: ler_sum => j _; rewrite normrM.
  rewrite (le_trans (cauchy _ (fun j => normr_ge0 (A i j)))) //.
  under [X in _ * X <= _]eq_bigr do rewrite real_normK ?num_real //.
  by rewrite ler_wpmul2r ?max_ge // sumr_ge0 // => j _; rewrite mulr_ge0 ?sqr_ge0.
rewrite -mulr_sumr [norm1 A * _]mulrC -mulrA ler_wpmul2l ?normoo_ge0 //.
rewrite exchange_big mulr_sumr; apply: ler_sum => j _.
by rewrite -mulr_suml ler_wpmul2r ?sqr_ge0 // max_ge.
Qed.
(* A column has the length |A e_j| <= s, and its sum is at most sqrt n times that; a row likewise. *)
Lemma norm1_le s : bounds A s -> norm1 A ^+ 2 <= n.+1%:R * s ^+ 2.
Proof.
move=> [s0 sA]; suff le : norm1 A <= Num.sqrt (n.+1%:R * s ^+ 2).
  rewrite -(sqr_sqrtr (_ : 0 <= n.+1%:R * s ^+ 2)) ?mulr_ge0 ?ler0n ?sqr_ge0 //.
  by rewrite ler_expn2r ?nnegrE ?norm1_ge0 ?sqrtr_ge0.
apply: max_le => [|j]; first exact: sqrtr_ge0.
have c0 : 0 <= col_sum A j by apply: sumr_ge0.
rewrite -(ger0_norm c0) -sqrtr_sqr ler_wsqrtr //.
have := @cauchy n.+1 (fun _ => 1) (fun i => `|A i j|) (fun _ => ler01).
under eq_bigr do rewrite mul1r; rewrite sumr_const card_ord => /le_trans; apply.
rewrite ler_wpmul2l ?ler0n //; have := sA (delta_mx j 0).
rewrite !sqnorm_col; have -> : \sum_i (delta_mx j 0 : 'cV[R]_d.+1) i 0 ^+ 2 = 1.
  rewrite (bigD1 j) //= mxE !eqxx expr1n big1 ?addr0 // => k /negbTE ne.
  by rewrite mxE ne expr0n.
rewrite mulr1; apply: le_trans; rewrite -colE; apply: ler_sum => i _.
by rewrite mul1r real_normK ?num_real // mxE.
Qed.
Lemma normoo_le s : bounds A s -> normoo A ^+ 2 <= d.+1%:R * s ^+ 2.
Proof.
move=> [s0 sA]; suff le : normoo A <= Num.sqrt (d.+1%:R * s ^+ 2).
  rewrite -(sqr_sqrtr (_ : 0 <= d.+1%:R * s ^+ 2)) ?mulr_ge0 ?ler0n ?sqr_ge0 //.
  by rewrite ler_expn2r ?nnegrE ?normoo_ge0 ?sqrtr_ge0.
apply: max_le => [|i]; first exact: sqrtr_ge0.
have c0 : 0 <= row_sum A i by apply: sumr_ge0.
rewrite -(ger0_norm c0) -sqrtr_sqr ler_wsqrtr //.
have := @cauchy d.+1 (fun _ => 1) (fun j => `|A i j|) (fun _ => ler01).
under eq_bigr do rewrite mul1r; rewrite sumr_const card_ord => /le_trans; apply.
rewrite ler_wpmul2l ?ler0n //; under eq_bigr do rewrite mul1r real_normK ?num_real //.
(* y = row i: |y|^4 = (A y)_i^2 <= s^2 |y|^2 *)
set q := \sum_j _; have q0 : 0 <= q by apply: sumr_ge0 => j _; apply: sqr_ge0.
have [->|qn] := eqVneq q 0; first exact: sqr_ge0.
have qp : 0 < q by rewrite lt_neqAle eq_sym qn.
rewrite -(ler_pmul2r qp) -expr2; have := sA (row i A)^T.
rewrite !sqnorm_col; have -> : \sum_j (row i A)^T j 0 ^+ 2 = q by apply: eq_bigr => j _; rewrite !mxE.
apply: le_trans; rewrite (bigD1 i) //= ler_paddr ?sumr_ge0 // => [k _|].
  exact: sqr_ge0.
rewrite mxE (eq_bigr (fun j => A i j ^+ 2)) => [|j _]; last by rewrite !mxE.
exact: lexx.
Qed.
(* Up to a factor the composite norm is the 2-norm. *)
Theorem spectral s : spectral_norm A s ->
  s <= composite A /\ composite A <= Num.sqrt (Num.sqrt (nd R n d)) * s.
Proof.
move=> [[s0 sA] least]; split; first exact: least composite_bounds.
have b : bounds A s by [].
have r0 : 0 <= Num.sqrt (nd R n d) by apply: sqrtr_ge0.
rewrite -(ger0_norm s0) -sqrtr_sqr -sqrtrM //; apply: ler_wsqrtr.
rewrite -[norm1 A](ger0_norm (norm1_ge0 A)) -[normoo A](ger0_norm (normoo_ge0 A)) -!sqrtr_sqr.
rewrite -[X in _ <= _ * X](ger0_norm (sqr_ge0 s)) -sqrtr_sqr -!sqrtrM ?sqr_ge0 ?ler0n //.
apply: ler_wsqrtr; rewrite /nd natrM [s ^+ 2 ^+ 2]expr2 [X in _ <= X]mulrACA.
by apply: ler_pmul (sqr_ge0 _) (sqr_ge0 _) (norm1_le b) (normoo_le b).
Qed.
End Spectral.
End Keeps.
(* The matrix (1) has the 2-norm 1, and composite norm 1. *)
Example two_norm_1 (R : rcfType) : spectral_norm (1%:M : 'M[R]_1) 1.
Proof.
split=> [|t [t0 /(_ (const_mx 1))]]; first by split=> // y; rewrite mul1mx expr1n mul1r.
rewrite mul1mx sqnorm_col big_ord1 mxE expr1n mulr1 => t1.
by rewrite -(ler_sqr (_ : 1 \is Num.nneg)) ?nnegrE ?ler01 ?expr1n.
Qed.
