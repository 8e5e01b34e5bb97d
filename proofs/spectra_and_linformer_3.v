(* Page 7: Low rank: spectra of attention, and Linformer (Theorem 7.10) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities logarithmic_dimension random_projections random_projections_3.
Import Mean.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Theorem 7.10 (Random products) (a): R has independent N(0, 1/k) entries. *)
Section Kappa3.
Variables (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) (k n : nat).
Variable R : Om -> 'M[F]_(k, n).
Hypotheses (ME : is_mean E) (k0 : (0 < k)%N) (g : Kappa3.kappa3_entries E R).
Theorem kappa3_product m d (P : 'M[F]_(m, n)) (V : 'M[F]_(n, d)) :
  E (fun o => sqnorm (P *m (R o)^T *m R o *m V - P *m V)) =
  k%:R^-1 * (sqnorm P * sqnorm V + sqnorm (P *m V)).
Proof.
have [ind _] := g; have mo := Kappa3.kappa3_moments g.
have := product_law ME k0 ind mo P V; rewrite subrr mul0r addr0 => <-.
by apply: (Eext ME) => o; rewrite /G !mulmxA.
Qed.
End Kappa3.

(* Theorem 7.10 (b) *)
Section Drawn.
Variables (F : rcfType) (m n d k : nat) (P : 'M[F]_(m, n)) (V : 'M[F]_(n, d)).
Hypothesis k0 : (0 < k)%N.
(* The term P_:j V_j: of the product, and its norm c_j = |P_:j| |V_j:|. *)
Definition term j : 'M[F]_(m, d) := col j P *m row j V.
Definition c j := Num.sqrt (\sum_i P i j ^+ 2) * Num.sqrt (\sum_l V j l ^+ 2).
Lemma c_ge0 j : 0 <= c j. Proof. by rewrite mulr_ge0 ?sqrtr_ge0. Qed.
Lemma c2 j : sqnorm (term j) = c j ^+ 2.
Proof.
have s0 (I : finType) (f : I -> F) : 0 <= \sum_i f i ^+ 2 by apply: sumr_ge0 => ? _; exact: sqr_ge0.
rewrite exprMn !sqr_sqrtr // /sqnorm mulr_suml; apply: eq_bigr => i _.
by rewrite mulr_sumr; apply: eq_bigr => l _; rewrite mxE big_ord1 !mxE exprMn.
Qed.
Lemma product_terms : P *m V = \sum_j term j.
Proof.
apply/matrixP => i l; rewrite mxE summxE; apply: eq_bigr => j _; by rewrite mxE big_ord1 !mxE.
Qed.

(* k tokens are drawn independently, j with chance p j. *)
Section Chances.
Variable p : 'I_n -> F.
Hypotheses (p0 : forall j, 0 <= p j) (p1 : \sum_j p j = 1).
(* The mean stays P V: p_j > 0 wherever c_j > 0. *)
Hypothesis seen : forall j, 0 < c j -> 0 < p j.
Definition draw := {ffun 'I_k -> 'I_n}.
Local Notation mean := (@expectation F _ _ p).
(* The average of P_:j V_j: / p_j over the drawn tokens. *)
Definition estimate (o : draw) := k%:R^-1 *: \sum_a (p (o a))^-1 *: term (o a).
Lemma mean_two (a b : 'I_k) (f h : 'I_n -> F) : a != b ->
  mean (fun o => f (o a) * h (o b)) = (\sum_j p j * f j) * (\sum_j p j * h j).
Proof.
move=> ab; pose g x j := if x == a then f j else if x == b then h j else 1.
have ba : b == a = false by rewrite eq_sym (negbTE ab).
have -> : mean (fun o => f (o a) * h (o b)) = mean (fun o => \prod_x g x (o x)).
  apply: eq_bigr => o _; congr (_ * _); rewrite (bigD1 a) //= (bigD1 b) 1?eq_sym //= /g !eqxx ba.
  by rewrite big1 ?mulr1 // => x /andP[/negbTE -> /negbTE ->].
rewrite expectation_prod (bigD1 a) //= (bigD1 b) 1?eq_sym //= /g !eqxx ba.
rewrite [X in _ * (_ * X)]big1 ?mulr1 // => x /andP[/negbTE -> /negbTE ->].
by rewrite -[RHS]p1; apply: eq_bigr => j _; rewrite mulr1.
Qed.
(* Terms that are never drawn are 0. *)
Lemma term_seen j : p j * (p j)^-1 *: term j = term j.
Proof.
have [/eqP pj|pj] := boolP (p j == 0); last by rewrite divff ?scale1r.
have c0 : c j = 0.
  apply/eqP; apply: contraT => cj; have := seen (_ : 0 < c j); rewrite pj ltxx => -> //.
  by rewrite lt_neqAle eq_sym cj c_ge0.
suff -> : term j = 0 by rewrite scaler0.
apply/matrixP => i l; rewrite [RHS]mxE; apply/eqP; rewrite -sqrf_eq0; apply/eqP.
have := c2 j; rewrite c0 expr0n /= => z.
have nn i' : 0 <= \sum_l' term j i' l' ^+ 2 by apply: sumr_ge0 => ? _; exact: sqr_ge0.
have zi := @psumr_eq0P _ _ predT _ (fun i _ => nn i) z i isT.
exact: (@psumr_eq0P _ _ predT _ (fun l _ => sqr_ge0 (term j i l)) zi l isT).
Qed.
Lemma mean_sum (I : finType) (f : I -> draw -> F) : mean (fun o : draw => \sum_i f i o) = \sum_i mean (f i).
Proof.
rewrite exchange_big; apply: eq_bigr => o _; exact: mulr_sumr.
Qed.
Lemma meanZ x (f : draw -> F) : mean (fun o : draw => x * f o) = x * mean f.
Proof. by rewrite mulr_sumr; apply: eq_bigr => o _; rewrite mulrCA. Qed.
Lemma meanZ_sum2 (I : finType) x (f : I -> I -> draw -> F) :
  mean (fun o : draw => x * \sum_a \sum_b f a b o) = x * \sum_a \sum_b mean (f a b).
Proof.
by rewrite meanZ mean_sum; congr (_ * _); apply: eq_bigr => a _; exact: mean_sum.
Qed.
Lemma mean_eq (f h : draw -> F) : f =1 h -> mean f = mean h.
Proof. by move=> e; apply: eq_bigr => o _; rewrite e. Qed.
Let kR : k%:R != 0 :> F. Proof. by rewrite pnatr_eq0 -lt0n. Qed.
(* One entry of what a token gives, less its mean. *)
Let dev i l j := (p j)^-1 * term j i l - (P *m V) i l.
Lemma term_entry i l j : p j * ((p j)^-1 * term j i l) = term j i l.
Proof. by have /matrixP/(_ i l) := term_seen j; rewrite mxE mulrA. Qed.
Lemma sum_entry i l : \sum_j p j * ((p j)^-1 * term j i l) = (P *m V) i l.
Proof. by rewrite product_terms summxE; apply: eq_bigr => j _; rewrite term_entry. Qed.
Lemma dev0 i l : \sum_j p j * dev i l j = 0.
Proof. by under eq_bigr do rewrite mulrBr; rewrite sumrB sum_entry -mulr_suml p1 mul1r subrr. Qed.
Lemma estimate_entry o i l : estimate o i l = k%:R^-1 * \sum_a ((p (o a))^-1 * term (o a) i l).
Proof. by rewrite mxE summxE; congr (_ * _); apply: eq_bigr => a _; rewrite mxE. Qed.
Lemma error_entry o i l : (estimate o - P *m V) i l = k%:R^-1 * \sum_a dev i l (o a).
Proof.
rewrite mxE [X in _ + X]mxE estimate_entry /dev; move: ((P *m V) i l) => mu.
by rewrite sumrB sumr_const card_ord -[mu *+ k]mulr_natl mulrBr [k%:R^-1 * (k%:R * mu)]mulrA mulVf // mul1r.
Qed.
(* Theorem 7.10 (b): the mean is P V ... *)
Theorem drawn_mean i l : mean (fun o : draw => estimate o i l) = (P *m V) i l.
Proof.
rewrite (mean_eq (fun o => estimate_entry o i l)) meanZ mean_sum (eq_bigr (fun=> (P *m V) i l)) => [|a _].
  by rewrite sumr_const card_ord -[(P *m V) i l *+ k]mulr_natl mulrA mulVf // mul1r.
by rewrite (expectation_one p1 a (fun j => (p j)^-1 * term j i l)) sum_entry.
Qed.
(* ... and the mean squared error of these chances is (sum of c_j^2 / p_j - |P V|^2) / k. *)
Theorem drawn_error : mean (fun o : draw => sqnorm (estimate o - P *m V)) =
  k%:R^-1 * (\sum_j c j ^+ 2 / p j - sqnorm (P *m V)).
Proof.
have entry i l : mean (fun o : draw => (estimate o - P *m V) i l ^+ 2) =
    k%:R^-1 * (\sum_j term j i l ^+ 2 / p j - (P *m V) i l ^+ 2).
  have sq : \sum_j p j * (dev i l j * dev i l j) = \sum_j term j i l ^+ 2 / p j - (P *m V) i l ^+ 2.
    set mu := (P *m V) i l.
    transitivity (\sum_j (term j i l ^+ 2 / p j - term j i l * (mu *+ 2) + p j * mu ^+ 2)).
      apply: eq_bigr => j _; rewrite /dev -/mu -{4}(term_entry i l j) -[in X in X / _](term_entry i l j).
      have [/eqP pj|pj] := boolP (p j == 0); first by rewrite pj; ident.
      have h : p j * (p j)^-1 = 1 by rewrite divff.
      transitivity (p j * (p j)^-1 * (p j)^-1 * term j i l ^+ 2 * (p j * (p j)^-1) -
        (p j * (p j)^-1) * term j i l * (mu *+ 2) + p j * mu ^+ 2); last by ident.
      by rewrite h; transitivity (p j * (p j)^-1 * (p j)^-1 * term j i l ^+ 2 -
        (p j * (p j)^-1) * term j i l * (mu *+ 2) + p j * mu ^+ 2); [ident | rewrite h; ident].
    rewrite big_split sumrB /= -!mulr_suml p1 mul1r.
    have -> : \sum_j term j i l = mu by rewrite /mu -sum_entry; apply: eq_bigr => j _; rewrite term_entry.
    by ident.
  transitivity (k%:R^-1 ^+ 2 * \sum_a \sum_b mean (fun o : draw => dev i l (o a) * dev i l (o b))).
    rewrite -meanZ_sum2; apply: mean_eq => o; rewrite error_entry exprMn; congr (_ * _).
    by rewrite expr2 mulr_suml; apply: eq_bigr => a _; rewrite mulr_sumr.
  have same (a : 'I_k) : \sum_b mean (fun o : draw => dev i l (o a) * dev i l (o b)) =
      \sum_j p j * (dev i l j * dev i l j).
    rewrite (bigD1 a) //= big1 ?addr0 => [|b ba]; last by rewrite mean_two 1?eq_sym // dev0 mul0r.
    by rewrite (expectation_one p1 a (fun j => dev i l j * dev i l j)).
  have one_k (q : F) : k%:R^-1 ^+ 2 * (q *+ k) = k%:R^-1 * q.
    by rewrite -[q *+ k]mulr_natl expr2 -mulrA [k%:R^-1 * (k%:R * q)]mulrA mulVf // mul1r.
  by rewrite (eq_bigr _ (fun a _ => same a)) sumr_const card_ord sq one_k.
rewrite mean_sum (eq_bigr (fun i => k%:R^-1 * (\sum_l \sum_j term j i l ^+ 2 / p j -
  \sum_l (P *m V) i l ^+ 2))) => [|i _]; last first.
  by rewrite mean_sum (eq_bigr _ (fun l _ => entry i l)) -mulr_sumr sumrB.
rewrite -mulr_sumr sumrB; congr (_ * (_ - _)).
rewrite (eq_bigr (fun i => \sum_j \sum_l term j i l ^+ 2 / p j)) => [|i _]; last exact: exchange_big.
rewrite exchange_big; apply: eq_bigr => j _; rewrite -c2 /sqnorm mulr_suml; apply: eq_bigr => i _.
by rewrite mulr_suml.
Qed.
(* No chances give less than (sum of c_j)^2. *)
Lemma chances_low : (\sum_j c j) ^+ 2 <= \sum_j c j ^+ 2 / p j.
Proof.
set S := \sum_j c j; rewrite -subr_ge0.
have -> : \sum_j c j ^+ 2 / p j - S ^+ 2 = \sum_j p j * (c j / p j - S) ^+ 2.
  transitivity (\sum_j (c j ^+ 2 / p j - c j * (S *+ 2) + p j * S ^+ 2)).
    by rewrite big_split sumrB /= -!mulr_suml p1 mul1r -/S; ident.
  apply: eq_bigr => j _; have [/eqP pj|pj] := boolP (p j == 0).
    have -> : c j = 0; last by rewrite pj; ident.
    apply/eqP; apply: contraT => cj; have := seen (_ : 0 < c j); rewrite pj ltxx => -> //.
    by rewrite lt_neqAle eq_sym cj c_ge0.
  have h : p j * (p j)^-1 = 1 by rewrite divff.
  transitivity (p j * (p j)^-1 * (c j ^+ 2 / p j) - p j * (p j)^-1 * (c j * (S *+ 2)) + p j * S ^+ 2).
    by rewrite h !mul1r.
  by ident.
by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?sqr_ge0.
Qed.
End Chances.

(* (7.9): the chances p_j = c_j / sum of c, if not all c_j are 0. *)
Section Best.
Let S := \sum_j c j.
Hypothesis S0 : 0 < S.
Definition best j := c j / S.
Lemma best_chances : [/\ forall j, 0 <= best j, \sum_j best j = 1 & forall j, 0 < c j -> 0 < best j].
Proof.
split=> [j||j cj]; [by rewrite divr_ge0 ?c_ge0 // ltW | | by rewrite divr_gt0].
by rewrite -mulr_suml divff // gt_eqF.
Qed.
Theorem best_error :
  expectation best (fun o => sqnorm (estimate best o - P *m V)) = k%:R^-1 * (S ^+ 2 - sqnorm (P *m V)).
Proof.
have [_ b1 bs] := best_chances; rewrite drawn_error //; congr (_ * (_ - _)).
transitivity (\sum_j c j * S); last by rewrite -mulr_suml expr2.
apply: eq_bigr => j _; rewrite /best invf_div; have [->|cj] := eqVneq (c j) 0.
  by rewrite expr0n /= mul0r mul0r.
by rewrite mulrA mulrAC expr2 mulfK.
Qed.
(* No other chances give less. *)
Theorem best_is_best p : (forall j, 0 <= p j) -> \sum_j p j = 1 -> (forall j, 0 < c j -> 0 < p j) ->
  expectation best (fun o => sqnorm (estimate best o - P *m V)) <=
  expectation p (fun o => sqnorm (estimate p o - P *m V)).
Proof.
move=> p0 p1 seen; rewrite best_error (drawn_error p1 seen).
by rewrite ler_wpmul2l ?invr_ge0 ?ler0n // ler_add2r chances_low.
Qed.
(* (c) (7.9) is never more than (7.8). *)
Theorem drawn_below_kappa3 :
  k%:R^-1 * (S ^+ 2 - sqnorm (P *m V)) <= k%:R^-1 * (sqnorm P * sqnorm V + sqnorm (P *m V)).
Proof.
rewrite ler_wpmul2l ?invr_ge0 ?ler0n // ler_add //; last by rewrite -subr_ge0 opprK addr_ge0 ?sq_ge0.
pose x : 'rV[F]_n := \row_j Num.sqrt (\sum_i P i j ^+ 2).
pose y : 'rV[F]_n := \row_j Num.sqrt (\sum_l V j l ^+ 2).
have s0 (I : finType) (f : I -> F) : 0 <= \sum_i f i ^+ 2 by apply: sumr_ge0 => ? _; exact: sqr_ge0.
have SE : S = dot x y by apply: eq_bigr => j _; rewrite !mxE.
have xE : norm x ^+ 2 = sqnorm P.
  rewrite FullRank.norm_sq /sqnorm exchange_big; apply: eq_bigr => j _.
  by rewrite mxE -expr2 sqr_sqrtr.
have yE : norm y ^+ 2 = sqnorm V.
  by rewrite FullRank.norm_sq; apply: eq_bigr => j _; rewrite mxE -expr2 sqr_sqrtr.
rewrite -xE -yE -exprMn ler_sqr ?nnegrE ?mulr_ge0 ?sqrtr_ge0 ?(ltW S0) // SE.
exact: FullRank.cauchy.
Qed.
End Best.
End Drawn.
(* Instance: P = V = 1, one token; c = 1. *)
Example one_token (F : rcfType) : 0 < \sum_j c (1%:M : 'M[F]_1) (1%:M : 'M[F]_1) j.
Proof. by rewrite big_ord1 /c !big_ord1 mxE expr1n sqrtr1 mulr1 ltr01. Qed.
