(* Page 4, "Escaping collapse" (notebooks/path_decomposition/escaping_collapse.ipynb),
   continued.
   Proposition 4.10. Tokens count from 0 here: i, j, k stand for the page's i - 1, j - 1, k - 1. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Pascal.
Variable (F : numFieldType).
(* The columns of Pascal's triangle are eigenvectors of averaging: P B = B diag(1/k). *)
Lemma average (i k : nat) :
  \sum_(m < i.+1) i.+1%:R^-1 * ('C(m, k))%:R = ('C(i, k))%:R * k.+1%:R^-1 :> F.
Proof.
rewrite -mulr_sumr -natr_sum; have -> : (\sum_(m < i.+1) 'C(m, k) = 'C(i.+1, k.+1))%N.
  by elim: i => [|i IH]; [rewrite big_ord1; case: k | rewrite big_ord_recr /= IH binS].
have : (k.+1 * 'C(i.+1, k.+1) = i.+1 * 'C(i, k))%N by rewrite mul_bin_diag.
move/(congr1 (fun m => m%:R : F)); rewrite !natrM => e.
rewrite -[X in _ * X](mulKf (_ : k.+1%:R != 0)) ?pnatr_eq0 // e mulrCA mulKf ?pnatr_eq0 //.
by rewrite mulrC.
Qed.
(* The inverse of Pascal's triangle has the signs (-1)^(k-j): here the sum over k, up to a sign. *)
Definition T i j : F := \sum_(k < i.+1) (-1) ^+ k * ('C(i, k))%:R * ('C(k, j))%:R.
Lemma TS i j :
  T i.+1 j = - (\sum_(k < i.+1) (-1) ^+ k * ('C(i, k))%:R * ('C(k.+1, j))%:R) + T i j.
Proof.
rewrite /T big_ord_recl /= addrC; under eq_bigr do rewrite /bump /= add1n binS natrD mulrDr mulrDl.
rewrite big_split /= addrAC addrC; congr (_ + _).
  by rewrite -sumrN; apply: eq_bigr => k _; rewrite exprS mulN1r !mulNr.
transitivity (\sum_(k < i.+2) (-1) ^+ k * ('C(i, k))%:R * ('C(k, j))%:R : F).
  by rewrite [RHS]big_ord_recl [LHS]addrC !bin0.
by rewrite big_ord_recr /= bin_small // mulr0 mul0r addr0.
Qed.
Lemma inverse i j : T i j = (-1) ^+ i * (i == j)%:R.
Proof.
elim: i j => [|i IH] j; first by rewrite /T big_ord1 !mul1r; case: j.
rewrite TS; case: j => [|j].
  rewrite mulr0 /T; under eq_bigr do rewrite bin0.
  by under [X in _ + X]eq_bigr do rewrite bin0; rewrite addNr.
under eq_bigr do rewrite binS natrD mulrDr.
rewrite big_split /= -!/(T _ _) opprD addrAC addNr add0r.
by rewrite IH eqSS exprS mulN1r mulNr.
Qed.
(* (4.13), as a sum over k <= i; the terms k < j are zero. *)
Definition power L i j : F :=
  \sum_(k < i.+1) (-1) ^+ (k + j) * ('C(i, k))%:R * ('C(k, j))%:R * (k.+1%:R^-1) ^+ L.
Lemma power0 i j : power 0 i j = (i == j)%:R.
Proof.
transitivity ((-1) ^+ j * T i j).
  rewrite mulr_sumr; apply: eq_bigr => k _.
  by rewrite expr0 mulr1 exprD [_ * (-1) ^+ j]mulrC !mulrA.
by rewrite inverse; case: eqP => [->|]; rewrite ?mulr0 // mulr1 -expr2 sqrr_sign.
Qed.
Lemma powerS L i j : power L.+1 i j = \sum_(m < i.+1) i.+1%:R^-1 * power L m j.
Proof.
have wide m : (m < i.+1)%N -> power L m j =
    \sum_(k < i.+1) ('C(m, k))%:R * ((-1) ^+ (k + j) * ('C(k, j))%:R * (k.+1%:R^-1) ^+ L).
  move=> mi; rewrite /power.
  rewrite (big_ord_widen _ (fun k => (-1) ^+ (k + j) * ('C(m, k))%:R * ('C(k, j))%:R
    * (k.+1%:R^-1) ^+ L) mi) big_mkcond; apply: eq_bigr => k _ /=.
  case: ltnP => km; last by rewrite bin_small // mul0r.
  by rewrite -!mulrA mulrCA.
transitivity (\sum_(m < i.+1) \sum_(k < i.+1) (i.+1%:R^-1 * ('C(m, k))%:R) *
    ((-1) ^+ (k + j) * ('C(k, j))%:R * (k.+1%:R^-1) ^+ L) : F); last first.
  apply: eq_bigr => m _; rewrite wide ?ltn_ord // mulr_sumr.
  by apply: eq_bigr => k _; rewrite -mulrA.
rewrite exchange_big; apply: eq_bigr => k _; rewrite -mulr_suml average exprS.
rewrite [(-1) ^+ _ * ('C(i, k))%:R]mulrC -!mulrA; congr (_ * _).
by rewrite [RHS]mulrCA; congr (_ * _); rewrite mulrCA.
Qed.
End Pascal.

(* Proposition 4.10 (Uniform causal attention). *)
Section Uniform.
Variables (F : realFieldType) (n d : nat).
Definition P : 'M[F]_n.+1 := \matrix_(i, j) (if (j <= i)%N then i.+1%:R^-1 else 0).
(* The eigenvalues are 1, 1/2, ..., 1/n: these are the roots of the characteristic polynomial. *)
Theorem uniform_eigenvalues :
  char_poly P = \prod_(i < n.+1) ('X - (i.+1%:R^-1)%:P).
Proof.
rewrite char_poly_trig; last by apply/is_trig_mxP => i j ij; rewrite mxE leqNgt ij.
by apply: eq_bigr => i _; rewrite mxE leqnn.
Qed.
Theorem uniform_power L (i j : 'I_n.+1) : (P ^+ L) i j =
  \sum_(k < n.+1 | (j <= k <= i)%N)
    (-1) ^+ (k - j) * ('C(i, k))%:R * ('C(k, j))%:R * (k.+1%:R^-1) ^+ L.
Proof.
transitivity (power F L i j).
  elim: L i => [|L IH] i; first by rewrite expr0 mxE power0.
  rewrite exprS mxE powerS (big_ord_widen _ (fun m => i.+1%:R^-1 * power F L m j) (ltn_ord i)).
  rewrite [RHS]big_mkcond; apply: eq_bigr => m _; rewrite IH mxE ltnS.
  by case: ifP; rewrite ?mul0r.
rewrite /power (big_ord_widen _ (fun k => (-1) ^+ (k + j) * ('C(i, k))%:R * ('C(k, j))%:R
  * (k.+1%:R^-1) ^+ L) (ltn_ord i)) big_mkcond [RHS]big_mkcond; apply: eq_bigr => k _.
rewrite ltnS andbC; case: (leqP k i) => //= _; case: leqP => [jk|kj]; last first.
  by rewrite (bin_small kj) mulr0 mul0r.
by rewrite -{1}(subnK jk) -addnA addnn exprD -muln2 exprM sqrr_sign mulr1.
Qed.

(* Token i of P^L X is x_1 + 2^(-L) (i - 1) (x_2 - x_1) up to order 3^(-L): a constant times 3^(-L)
   bounds the difference for every L. There are at least two tokens, n + 1 with n >= 1. *)
Hypothesis n1 : (0 < n)%N.
Theorem tokens (X : 'M[F]_(n.+1, d)) (i : 'I_n.+1) c : let x1 := X 0 c in let x2 := X (inord 1) c in
  exists B, forall L,
  `|(P ^+ L *m X) i c - (x1 + 2%:R^-1 ^+ L * (i%:R * (x2 - x1)))| <= B * 3%:R^-1 ^+ L.
Proof.
move=> x1 x2.
(* The state is the sum over k of y_k / (k+1)^L. *)
pose y k : F := \sum_(j < n.+1 | (j <= k <= i)%N)
  (-1) ^+ (k - j) * ('C(i, k))%:R * ('C(k, j))%:R * X j c.
have state L : (P ^+ L *m X) i c = \sum_(k < n.+1) y k * (k.+1%:R^-1) ^+ L.
  rewrite mxE; under eq_bigr do rewrite uniform_power mulr_suml.
  rewrite (exchange_big_dep xpredT) //=; apply: eq_bigr => k _; rewrite mulr_suml.
  by apply: eq_bigr => j _; rewrite mulrAC.
have y0 : y 0%N = x1.
  rewrite /y (big_pred1 0) => [|j]; last by rewrite /= leq0n andbT leqn0 -val_eqE.
  by rewrite !bin0 !mul1r.
have y1 : y 1%N = i%:R * (x2 - x1).
  have i1 : (1 < n.+1)%N by [].
  have in1 : inord 1 = Ordinal i1 by apply: val_inj; rewrite /= inordK.
  have [i0|ip] := posnP i.
    by rewrite i0 mul0r /y i0 big1 // => j /andP[].
  rewrite /y (bigD1 0) ?ip //= (big_pred1 (Ordinal i1)) => [|j]; last first.
    by rewrite /= andbT -!val_eqE /=; case: (j : nat) => [|[|]].
  by rewrite !bin1 !bin0 /x2 in1 mulr1 expr1 !mulr1 mul1r mulN1r mulNr addrC mulrBr.
(* The terms k = 0 and k = 1 are those of the line; the others are of order 3^(-L). *)
exists (\sum_(k < n.+1) `|y k|) => L; rewrite state.
have i1 : (1 < n.+1)%N by [].
rewrite (bigD1 0) // (bigD1 (Ordinal i1)) //=; set rest := \sum_(k | _) _.
have -> : y 0%N * 1%:R^-1 ^+ L + (y 1%N * 2%:R^-1 ^+ L + rest) =
    rest + (x1 + 2%:R^-1 ^+ L * (i%:R * (x2 - x1))).
  by rewrite -y1 -y0 invr1 expr1n mulr1 [_ ^+ L * y 1%N]mulrC addrA addrC.
rewrite addrK /rest; apply: le_trans (ler_norm_sum _ _ _) _.
rewrite mulr_suml big_mkcond; apply: ler_sum => k _; case: ifP => [/andP[k0 k1]|_]; last first.
  by rewrite mulr_ge0 // exprn_ge0 // invr_ge0 ler0n.
rewrite normrM ler_wpmul2l // ger0_norm ?exprn_ge0 ?invr_ge0 ?ler0n //.
apply: ler_expn2r; rewrite ?nnegrE ?invr_ge0 ?ler0n // lef_pinv ?posrE ?ltr0n // ler_nat.
by move: k0 k1; rewrite -!val_eqE /=; case: (k : nat) => [|[|]].
Qed.
End Uniform.
(* Two tokens: P^2 has the rows (1, 0), (3/4, 1/4). *)
Example uniform_met : let A := P [realFieldType of rat] 1 ^+ 2 in
  A 1 0 = 3%:R / 4%:R /\ A 1 1 = 1 / 4%:R.
Proof.
move=> A; have E (i j : 'I_2) : A i j = P _ 1 i 0 * P _ 1 0 j + P _ 1 i 1 * P _ 1 1 j.
  rewrite /A expr2 mxE !big_ord_recl big_ord0 addr0.
  by have -> : lift ord0 ord0 = 1 :> 'I_2 by apply/val_inj.
by rewrite !E /P !mxE; split; apply/eqP; vm_compute.
Qed.
