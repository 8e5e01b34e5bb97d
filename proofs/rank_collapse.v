(* Page 2, "Rank collapse" (notebooks/path_decomposition/rank_collapse.ipynb).
   Propositions 2.16 and 2.17. Layers are those of paths.v; compile it first. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions paths exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Residual.
Variables (F : rcfType) (n d : nat).
Implicit Types (X R : 'M[F]_(n.+1, d)).
Local Notation ones := (one F n.+1).
Local Notation J := (centring F n.+1).
Lemma res_row (b : 'rV[F]_d) : res (ones *m b) = 0.
Proof. by rewrite /res mulmxA centring_ones mul0mx. Qed.
(* The tokens are a common row x plus the residual. *)
Lemma row_plus_res X : exists x : 'rV[F]_d, X = ones *m x + res X.
Proof.
exists (n.+1%:R^-1 *: (ones^T *m X)).
by rewrite /res mulmxBl mul1mx -scalemxAl -mulmxA -scalemxAr addrC subrK.
Qed.

Section Layers.
Variables (H dv : nat) (WV : nat -> 'I_H -> 'M[F]_(d, dv)) (WO : nat -> 'I_H -> 'M[F]_(dv, d)).
Variables (bV : nat -> 'I_H -> 'rV[F]_dv) (bO : nat -> 'rV[F]_d).
Local Notation W := (W WV WO).

(* P 1 = 1 and J 1 = 0: the shared row and all biases drop out. *)
Lemma res_layer (P : 'I_H -> 'M[F]_n.+1) l X : (forall h, P h *m ones = ones) ->
  res (SA WV WO bV bO P l X) = \sum_h J *m P h *m res X *m W l h.
Proof.
move=> P1; have [x Xx] := row_plus_res X; rewrite {1}Xx addrC shared_row //.
rewrite /res mulmxDr -/(res (ones *m _)) res_row addr0 mulmx_sumr.
by apply: eq_bigr => h _; rewrite !mulmxA.
Qed.

(* Proposition 2.16 (a). Any rows s_h may be subtracted, probability vectors or not. *)
Theorem subtract_rows (P : 'I_H -> 'M[F]_n.+1) (s : 'I_H -> 'rV[F]_n.+1) l X :
  (forall h, P h *m ones = ones) ->
  res (SA WV WO bV bO P l X) = res (\sum_h (P h - ones *m s h) *m res X *m W l h).
Proof.
move=> P1; rewrite res_layer //; move: (res X) => R.
rewrite /res mulmx_sumr; apply: eq_bigr => h _.
by rewrite !mulmxA [J *m (P h - _)]mulmxBr [J *m (ones *m _)]mulmxA centring_ones mul0mx subr0.
Qed.

(* Proposition 2.17 (Frozen attention has no cube). The matrices P l h are fixed. *)
Variable (P : nat -> 'I_H -> 'M[F]_n.+1).
Hypothesis P1 : forall l h, P l h *m ones = ones.
Definition frozen L X := SAN WV WO bV bO (fun l h _ => P l h) L X.
(* (2.26): R_L from R_0. *)
Fixpoint residual L R : 'M[F]_(n.+1, d) :=
  if L is l.+1 then \sum_h J *m P l h *m residual l R *m W l h else R.
Theorem frozen_residual L X : res (frozen L X) = residual L (res X).
Proof. by elim: L => //= l IH; rewrite /frozen /= res_layer // -/(frozen l X) IH. Qed.
(* It is linear in the residual of the input; t times in gives t times out. *)
Theorem frozen_linear L t R R' : residual L (t *: R + R') = t *: residual L R + residual L R'.
Proof.
elim: L => //= l ->; rewrite scaler_sumr -big_split; apply: eq_bigr => h _ /=.
by rewrite mulmxDr mulmxDl -scalemxAr -scalemxAl.
Qed.
End Layers.

Lemma sqnorm_rows m k (A : 'M[F]_(m, k)) : sqnorm A = \sum_i sqnorm (row i A).
Proof.
apply: eq_bigr => i _; rewrite /sqnorm big_ord1; by apply: eq_bigr => j _; rewrite mxE.
Qed.
Lemma sqnorm_cols m k (A : 'M[F]_(m, k)) : sqnorm A = \sum_j sqnorm (col j A).
Proof.
rewrite /sqnorm exchange_big; apply: eq_bigr => j _; apply: eq_bigr => i _.
by rewrite big_ord1 mxE.
Qed.

(* (2.27): one head in each layer. sigma l is any number with sigma |r| <= |J P r| for columns r of
   mean zero, tau l any number with tau |y| <= |y W| for rows y; the smallest singular values are
   the largest such numbers. *)
Section LowerBound.
Variables (P : nat -> 'M[F]_n.+1) (W : nat -> 'M[F]_d) (sigma tau : nat -> F).
Hypotheses (sigma0 : forall l, 0 <= sigma l) (tau0 : forall l, 0 <= tau l).
Hypothesis sigmaP : forall l (r : 'cV[F]_n.+1), ones^T *m r = 0 ->
  sigma l ^+ 2 * sqnorm r <= sqnorm (J *m P l *m r).
Hypothesis tauP : forall l (y : 'rV[F]_d), tau l ^+ 2 * sqnorm y <= sqnorm (y *m W l).
Definition one_head L R :=
  residual (fun l (_ : 'I_1) => 1%:M) (fun l _ => W l) (fun l _ => P l) L R.
Theorem frozen_lower L X :
  \prod_(l < L) (sigma l * tau l) * norm (res X) <= norm (one_head L (res X)).
Proof.
have mean0 k : ones^T *m one_head k (res X) = 0.
  case: k => [|k]; first by rewrite /one_head /= /res mulmxA ones_centring mul0mx.
  by rewrite /one_head /= big_ord1 !mulmxA ones_centring !mul0mx.
elim: L => [|l IH]; first by rewrite big_ord0 mul1r.
have st0 := mulr_ge0 (sigma0 l) (tau0 l).
rewrite big_ord_recr /= [_ * (sigma l * tau l)]mulrC -mulrA.
apply: le_trans (ler_wpmul2l st0 IH) _.
rewrite -(ger0_norm st0) -sqrtr_sqr -sqrtrM ?sqr_ge0 //.
apply: ler_wsqrtr; rewrite /one_head /= big_ord1 /paths.W mul1mx -/(one_head l (res X)).
move: (mean0 l); set R := one_head _ _ => R0.
(* Each row of J P R is shortened by W to no less than tau of its own, ... *)
apply: le_trans (_ : tau l ^+ 2 * sqnorm (J *m P l *m R) <= _); last first.
  rewrite sqnorm_rows mulr_sumr [X in _ <= X]sqnorm_rows; apply: ler_sum => i _.
  by rewrite [X in _ <= sqnorm X]row_mul tauP.
(* ... and each column of R to no less than sigma of its length. *)
rewrite exprMn [sigma l ^+ 2 * _]mulrC -mulrA ler_wpmul2l ?sqr_ge0 //.
rewrite sqnorm_cols mulr_sumr [X in _ <= X]sqnorm_cols; apply: ler_sum => j _.
by rewrite !colE -(mulmxA (J *m P l) R); apply: sigmaP; rewrite mulmxA R0 mul0mx.
Qed.
End LowerBound.
End Residual.

(* The hypotheses are met, with sigma = tau = 1, by identity matrices: then J R = R for a
   residual. *)
Example frozen_lower_met (F : rcfType) n d L (X : 'M[F]_(n.+1, d)) :
  norm (res X) <= norm (one_head (fun _ => 1%:M) (fun _ => 1%:M) L (res X)).
Proof.
have prod1 : \prod_(l < L) (1 * 1) = 1 :> F by rewrite big1 // => ? _; rewrite mulr1.
rewrite -[X in X <= _]mul1r -[X in X * _]prod1.
apply: (@frozen_lower _ _ _ _ _ (fun=> 1) (fun=> 1)) => [_|_|l r r0|l y].
- exact: ler01.
- exact: ler01.
- rewrite expr1n mul1r mulmx1.
  by rewrite mulmxBl mul1mx -scalemxAl -mulmxA r0 mulmx0 scaler0 subr0.
by rewrite expr1n mul1r mulmx1.
Qed.

(* Two heads whose P is the identity; any weights, biases and rows. *)
Example frozen_met (F : rcfType) n d dv L (X : 'M[F]_(n.+1, d))
  (WV : nat -> 'I_2 -> 'M[F]_(d, dv)) WO bV bO :
  res (frozen WV WO bV bO (fun _ (_ : 'I_2) => 1%:M) L X) =
    residual WV WO (fun _ (_ : 'I_2) => 1%:M) L (res X) /\
  forall s, res (SA WV WO bV bO (fun _ : 'I_2 => 1%:M) L X) =
    res (\sum_h (1%:M - one F n.+1 *m s h) *m res X *m W WV WO L h) :> 'M[F]_(n.+1, d).
Proof.
split; first by apply: frozen_residual => l h; apply: mul1mx.
by move=> s; apply: subtract_rows => h; apply: mul1mx.
Qed.

(* Proposition 2.16 (b). Logits live in an additive group V, and e : V -> F turns sums into
   products: V = F = the reals and e = exp on the page; V = int and e k = 2^k in exact
   arithmetic. *)
Section Recursion.
Variables (F : fieldType) (V : zmodType) (e : V -> F) (ln : F -> V) (n : nat).
Hypotheses (e0 : e 0 = 1) (eD : forall x y, e (x + y) = e x * e y).
Variables (s : 'I_n -> F) (v : 'I_n -> V).
Definition expm1 y : F := e y - 1.
Definition log1p y : V := ln (1 + y).
Definition lambda : V := log1p (\sum_k s k * expm1 (v k)).
Definition p := softmax e (fun k => ln (s k) + v k).
(* s is a probability vector; ln inverts e at its entries and at the one sum. *)
Hypotheses (s1 : \sum_k s k = 1) (lns : forall k, e (ln (s k)) = s k).
Hypothesis lnT : e lambda = 1 + \sum_k s k * expm1 (v k).
(* (2.25) *)
Theorem recursion j : p j - s j = s j * expm1 (v j - lambda).
Proof.
have eN x : e x * e (- x) = 1 by rewrite -eD subrr e0.
(* 1 + sum_k s_k (e^v_k - 1) = sum_k s_k e^v_k *)
have T : e lambda = \sum_k e (ln (s k) + v k).
  rewrite lnT -[X in X + _]s1 -big_split; apply: eq_bigr => k _ /=.
  by rewrite eD lns /expm1 mulrBr mulr1 addrC subrK.
have inv : e (- lambda) = (e lambda)^-1.
  have l0 : e lambda != 0 by apply: contra_eq_neq (eN lambda) => ->; rewrite mul0r eq_sym oner_eq0.
  by apply: (mulfI l0); rewrite eN divff.
by rewrite /p /softmax -T eD lns /expm1 eD inv mulrBr mulr1 mulrA.
Qed.
End Recursion.
(* In particular for exp and ln. *)
Corollary recursion_exp (F : realFieldType) (exp ln : F -> F) n (s v : 'I_n -> F) :
  exponential exp -> logarithm exp ln -> (forall k, 0 < s k) -> \sum_k s k = 1 ->
  forall j, p exp ln s v j - s j = s j * expm1 exp (v j - lambda exp ln s v).
Proof.
move=> expE lnE s0 s1; apply: recursion => //.
- exact: exp0.
- exact: expD.
- by move=> k; apply: lnE.
(* 1 + sum_k s_k (e^v_k - 1) = sum_k s_k e^v_k > 0 *)
rewrite /lambda /log1p lnE // -[X in X + _]s1 -big_split /=.
have pos k : 0 < s k + s k * expm1 exp (v k).
  by rewrite /expm1 mulrBr mulr1 addrC subrK mulr_gt0 // (exp_gt0 expE).
case: (n) s v s0 s1 pos => [|m] s v s0 s1 pos.
  by move: s1; rewrite big_ord0 => /eqP; rewrite eq_sym oner_eq0.
by rewrite big_ord_recl ltr_paddr // sumr_ge0 // => k _; apply: ltW.
Qed.
(* s = (1/2, 1/4, 1/4), v = (-1, 1, 0), e k = 2^k: the sum is 1, and p = (1/4, 1/2, 1/4). *)
Example recursion_met :
  let e (k : int) : rat := 2%:R ^ k in
  let ln (y : rat) : int := if y == 1 then 0 else if y == 1 / 2%:R then -1 else - 2%:Z in
  let s (i : 'I_3) : rat := if i == 0 then 1 / 2%:R else 1 / 4%:R in
  let v (i : 'I_3) : int := nth 0 [:: -1; 1; 0] i in
  [/\ \sum_k s k = 1, forall k, e (ln (s k)) = s k &
   e (lambda e ln s v) = 1 + \sum_k s k * expm1 e (v k)].
Proof.
have E : \sum_(k < 3) (if k == 0 then 1 / 2%:R else 1 / 4%:R) *
    expm1 (fun k : int => 2%:R ^ k : rat) (nth 0 [:: -1; 1; 0] k) = 0.
  by rewrite !big_ord_recl big_ord0.
split; first by rewrite !big_ord_recl big_ord0.
  by case=> [[|[|[|]]]].
by rewrite /lambda /log1p E addr0.
Qed.
